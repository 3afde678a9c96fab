"""flower: Flower's simulation of the same work, in its current message API.

In its favour: data and net stay resident in each actor, each core has a single-thread actor, and clients are sent out
longest first. A node is told which client it plays, so that the cohort is everybody's.

As it comes (`as_it_comes`), it is what its tutorials lead to: default resources, which are two CPUs for each client, so
that two cores serve one client at a time; for every message a new net and a new DataLoader. Data are resident here too.
"""

import json
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from throughput_parts.contestants import CORES
from throughput_parts.plain_nets import plain_net
from throughput_parts.script import PASSES, right, train, train_from_loader
from throughput_parts.turns import Over, Turns
from throughput_parts.work import Work
from throughput_parts.workloads import ENDLESS, Values

client_app = ClientApp()


@cache
def resident(values: str, one_thread: bool) -> tuple[Work, torch.nn.Module]:
    """An actor's data and net, made once."""
    if one_thread:
        torch.set_num_threads(1)
    work = Work.of(json.loads(values))
    return work, work.net()


def received(message: Message) -> tuple[Work, torch.nn.Module, int, int]:
    """The work, the net with the weights just received, the round and the client."""
    config = message.content["config"]
    work, net = resident(str(config["experiment"]), not config["as-it-comes"])
    if config["as-it-comes"]:
        net = plain_net(work.experiment.net.name)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return work, net, int(config["round"]), int(config["client"])


@client_app.train()
def train_client(message: Message, context: Context) -> Message:
    """Local training."""
    work, net, round, client = received(message)
    local, data = work.experiment.local, work.train[client]
    if message.content["config"]["as-it-comes"]:
        train_from_loader(net, data, local, local.at_round(round), work.order(round, client))
    else:
        train(net, data, local, local.at_round(round), work.order(round, client), fused=False)
    metrics = MetricRecord({"num-examples": len(data[1])})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.evaluate()
def score_client(message: Message, context: Context) -> Message:
    """Generic and personal model on the client's own test split."""
    work, net, _, client = received(message)
    metrics = {name: right(net, work.test[client]) / len(work.test[client][1]) for name in PASSES}
    record = MetricRecord({"num-examples": len(work.test[client][1]), **metrics})
    return Message(content=RecordDict({"metrics": record}), reply_to=message)


class InTurns(FedAvg):
    """FedAvg that waits for its turn before each round and names the clients."""

    def __init__(self, values: Values, turns: Turns, as_it_comes: bool):
        super().__init__()
        self.values, self.turns, self.work = json.dumps(values), turns, Work.of(values)
        self.as_it_comes = as_it_comes

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The cohort of a round."""
        self.turns.next()
        clients = self.work.longest_first(self.work.cohort(server_round))
        return self._messages(clients, MessageType.TRAIN, server_round, arrays, grid)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Everybody, in rounds that are scored."""
        clients = self.work.longest_first(list(range(len(self.work.test)))) if self.work.scores(server_round) else []
        return self._messages(clients, MessageType.EVALUATE, server_round, arrays, grid)

    def _messages(self, clients: list[int], kind: str, round: int, arrays: ArrayRecord, grid: Grid) -> list[Message]:
        messages = []
        for node, client in zip(grid.get_node_ids(), clients, strict=False):  # there are as many nodes as clients
            config = ConfigRecord(
                {"experiment": self.values, "round": round, "client": client, "as-it-comes": self.as_it_comes}
            )
            content = RecordDict({"arrays": arrays, "config": config})
            messages.append(Message(content=content, message_type=kind, dst_node_id=node))
        return messages


def play(values: Values, turns: Turns, as_it_comes: bool = False) -> None:
    """A simulation that ends when the contest does."""
    strategy = InTurns(values, turns, as_it_comes)
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy.start(grid, ArrayRecord(strategy.work.net().state_dict()), num_rounds=ENDLESS)

    helped = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": CORES}}
    resources: dict[str, Any] = {} if as_it_comes else helped
    try:
        run_simulation(server_app, client_app, num_supernodes=len(strategy.work.train), backend_config=resources)
    except Over:
        os._exit(0)  # Ray ends with this process: it has a machine of its own
