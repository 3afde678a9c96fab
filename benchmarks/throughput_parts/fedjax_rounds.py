"""FedJAX's rounds, in its own environment: python -m throughput_parts.fedjax_rounds FOLDER.

As its guide has it: `for_each_client` with a step that is compiled once for each size of batch. In its favour, data are
resident, batches are cut before the clock runs, and every size of batch is compiled before the first round. It is kept
on one core: steps as small as these do not fill a second one, and on two its threads stall in one round of three.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # before jax counts the cores

import jax  # noqa: E402

jax.tree_map = jax.tree.map  # which FedJAX 0.0.17 still calls so

import fedjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from throughput_parts.turns import Over, Turns  # noqa: E402

Weights = list[Any]
Batch = dict[str, Any]


@dataclass
class Written:
    """The work as it was written down."""

    settings: dict[str, Any]
    x: Any
    y: Any
    orders: Any
    weights: Weights

    @classmethod
    def of(cls, folder: Path) -> "Written":
        """All of it, in memory."""
        arrays = np.load(folder / "weights.npz")
        weights = [jnp.asarray(arrays[name]) for name in arrays.files]
        settings = json.loads((folder / "work.json").read_text())
        return cls(settings, *(np.load(folder / f"{name}.npy") for name in ("x", "y", "orders")), weights)

    def rounds(self) -> Iterator[tuple[float, list[tuple[int, list[Batch], Any]], list[int]]]:
        """Learning rate, clients with their batches, and how many samples each has."""
        at, starts = 0, self.settings["starts"]
        for told in self.settings["rounds"]:
            clients, sizes = [], []
            for client in told["cohort"]:
                first, n = starts[client], starts[client + 1] - starts[client]
                rows = self.orders[at : at + n * self.settings["epochs"]].reshape(-1, n) + first
                at += rows.size
                clients.append((client, [batch for epoch in rows for batch in self.batches(epoch)], ()))
                sizes.append(n)
            yield told["lr"], clients, sizes

    def batches(self, rows: Any) -> list[Batch]:
        """Of one epoch."""
        size = self.settings["batch"]
        last = len(rows) - len(rows) % size if self.settings["drop_last"] and len(rows) > size else len(rows)
        cuts = [rows[i : i + size] for i in range(0, last, size)]
        return [{"x": self.x[cut], "y": self.y[cut]} for cut in cuts]


def loss(weights: Weights, batch: Batch) -> Any:
    """Cross-entropy of a row of linear layers without biases."""
    z = batch["x"]
    for W in weights[:-1]:
        z = jax.nn.relu(z @ W.T)
    logits = jax.nn.log_softmax(z @ weights[-1].T)
    return -jnp.take_along_axis(logits, batch["y"][:, None], axis=1).mean()


def training(momentum: float, decay: float) -> Any:
    """Local SGD of every client; the learning rate is told with the weights."""

    def begin(told: Any, _: Any) -> Any:
        return {"w": told["w"], "v": jax.tree.map(jnp.zeros_like, told["w"]), "lr": told["lr"]}

    def step(state: Any, batch: Batch) -> Any:
        g = jax.grad(loss)(state["w"], batch)
        v = jax.tree.map(lambda v, g, w: momentum * v + g + decay * w, state["v"], g, state["w"])
        return {"w": jax.tree.map(lambda w, v: w - state["lr"] * v, state["w"], v), "v": v, "lr": state["lr"]}

    def end(told: Any, state: Any) -> Any:
        return state["w"]

    return fedjax.for_each_client(begin, step, end)


def one_round(train: Any, weights: Weights, lr: float, clients: list[Any], sizes: list[int]) -> Weights:
    """FedAvg, by samples."""
    n, total = dict(zip((client for client, _, _ in clients), sizes, strict=True)), sum(sizes)
    mean = fedjax.tree_util.tree_zeros_like(weights)
    for client, w in train({"w": weights, "lr": jnp.float32(lr)}, clients):
        mean = fedjax.tree_util.tree_add(mean, fedjax.tree_util.tree_weight(w, n[client] / total))
    return list(jax.block_until_ready(mean))


def main() -> None:
    """Rounds in turns."""
    written = Written.of(Path(sys.argv[1]))
    train = training(written.settings["momentum"], written.settings["weight_decay"])
    sizes = range(1, written.settings["batch"] + 1)
    every_size = [(0, [{"x": written.x[:size], "y": written.y[:size]} for size in sizes], ())]
    one_round(train, written.weights, 0.0, every_size, [1])
    turns, weights = Turns(), written.weights
    try:
        for lr, clients, counts in written.rounds():
            turns.next()
            weights = one_round(train, weights, lr, clients, counts)
        turns.next()
        turns.unable("no more rounds were written down")
    except Over:
        return


if __name__ == "__main__":
    main()
