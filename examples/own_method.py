"""Your own method: a part in one file. Here the server keeps momentum, as in FedAvgM (Hsu, Qi and Brown 2019).

motet run --method "examples/own_method.py:ServerMomentum(beta=0.7)"
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

import motet
from motet.methods import Acts, Message, Part, Serving, tensor
from motet.testing import check_method


class ServerMomentum(Part):
    """v ← βv + (mean_S x_i − w),   w ← w + v"""

    acts: ClassVar[Acts] = "server"
    serves_adaptation: ClassVar[bool] = False

    beta: float = Field(0.5, ge=0, lt=1, description="β, how much of the last round's move is repeated")

    def start(self, s: Serving) -> None:
        """v = 0"""
        s.state["momentum.v"] = s.zeros()

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """After the mean, which is already the server's model."""
        w, mean = s.moved
        v = self.beta * tensor(s.state, "momentum.v") + (mean - w)
        s.state["momentum.v"] = v
        s.put(w + v)


if __name__ == "__main__":
    print("passed:", ", ".join(check_method(ServerMomentum)))
    for method in ("fedavg", f"{__file__}:ServerMomentum", f"{__file__}:ServerMomentum+ft"):
        result = motet.run(method=method, clients=10, rounds=5, epochs=1, lr=0.02)
        name, personal = method.rpartition(":")[2], result.personal.weighted.personal_models
        print(f"{name:18} generic {result.generic.accuracy:.3f}  personal {personal:.3f}")
