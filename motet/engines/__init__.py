"""Engines: where client work runs, and how it gets there.

`engine.py` says what an engine is, `inline.py` is the reference, `pool.py` has worker processes (`worker.py` is their
side, `shared_memory.py` carries tensors between them), `ray.py` has actors in a cluster (`ray_cluster.py` joins it,
`ray_actor.py` is their side, `ray_states.py` leaves private states there), `several_workers.py` is the loop of both,
`elsewhere.py` stands for real sites (`motet/sites/engine.py`), `dealing.py` decides which worker gets which tasks,
`client_states.py` keeps private states, `registry.py` lists engines by name. May import messages, config and io;
knows no method, data or metric. Start reading in `inline.py`.
"""

from motet.engines.client_states import ClientStates, PrivateStore, WithStates
from motet.engines.engine import Engine, OneByOne, Perform, Work
from motet.engines.inline import Inline
from motet.engines.pool import Pool

__all__ = ["ClientStates", "Engine", "Inline", "OneByOne", "Perform", "Pool", "PrivateStore", "WithStates", "Work"]
