"""Networks: each is a row of named stages, which any stage boundary splits in body and head.

One file per family (`mlp.py`, `conv.py`, `resnet.py`, ...) builds the nets and ends with their entries; `registry.py`
lists them by name. `net.py` has the class and what an entry says, `dense.py` the fast path for rows of linear layers,
`imported.py` nets of the user's own code, `pretrained.py` weights from a file. May import data.input, config and io;
knows no method and no client. Start reading in `net.py`, then `mlp.py`.
"""

from motet.nets.net import Net, NetEntry
from motet.nets.registry import NETS, build_net, describe_nets, net_term

__all__ = ["NETS", "Net", "NetEntry", "build_net", "describe_nets", "net_term"]
