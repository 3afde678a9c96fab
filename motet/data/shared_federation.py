"""A federation on its way to another process: a few mapped tensors, however many clients there are."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motet.data import ClientData, Federation


@dataclass(frozen=True)
class SharedFederation:
    """The blocks of samples, which processes map instead of copying, and how to cut the clients from them."""

    blocks: Federation  # without its clients
    cuts: Tensor  # per client: samples to train, validate and test; whether it is new, malicious, has a domain; which
    names: tuple[str, ...]  # of the clients; empty where they have none but their numbers

    @classmethod
    def of(cls, federation: Federation) -> "SharedFederation":
        """Of a federation whose clients are slices of its stored samples, one after the other."""
        cuts = [
            [
                len(c.train),
                0 if c.shares_val else len(c.val),
                len(c.test),
                c.new,
                c.malicious,
                c.domain is not None,
                c.domain or 0,
            ]
            for c in federation.clients
        ]
        names = tuple(c.given_name for c in federation.clients)
        return cls(replace(federation, clients=[]), torch.tensor(cuts, dtype=torch.int64), names if any(names) else ())

    def cut(self) -> Federation:
        """The whole federation again."""
        stored, clients, start = self.blocks.stored, [], 0
        shared = self.blocks.shared_validation()
        for id, (*sizes, new, malicious, has_domain, domain) in enumerate(self.cuts.tolist()):
            parts = []
            for size in sizes:
                parts.append(stored.part(start, start + size))
                start += size
            train, val, test = parts
            name = self.names[id] if self.names else ""
            where = domain if has_domain else None
            val = shared.get(where, val)
            clients.append(ClientData(id, train, val, test, where, bool(new), name, bool(malicious), bool(shared)))
        return replace(self.blocks, clients=clients)
