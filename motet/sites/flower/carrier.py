"""The coordinator's lines to the SuperLink, on a socket of this machine: register sites, push and pull messages."""

import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.errors import MotetError, one_sentence
from motet.sites.flower.common import (
    HEARTBEAT,
    Named,
    Unreachable,
    WithToken,
    content_of,
    in_sentences,
    parcel_of,
)
from motet.sites.flower.link import VERSION
from motet.sites.flower.parts import Lost, Receiving, Sending
from motet.sites.wire import Parcel

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

BUNDLE = f"""[project]
name = "motet-run"
version = "1.0.0"
description = "Motet"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>={VERSION},<1.42.0"]
[tool.flwr.app]
publisher = "motet"
fab-format-version = 1
flwr-version-target = "{VERSION}"
[tool.flwr.app.components]
serverapp = "nothing:here"
clientapp = "nothing:here"
[tool.flwr.app.config]
note = ""
"""
TYPES = {
    "hello": "query.hello",
    "begin": "query.begin",
    "introduce": "query.introduce",
    "prepare": "query.prepare",
    "train": "train",
    "score": "evaluate",
    "sync_score": "evaluate.sync",
    "adapt": "evaluate.adapt",
    "finish": "query.finish",
}
"""Flower's words for the kinds of messages."""

SUPERLINK = "the SuperLink"
"""In sentences."""


def over_socket(kind: type[Any], socket: Path, *interceptors: Any) -> Any:
    """Return a client of Flower's that speaks through a socket in the file system, which other users cannot reach."""
    import httpx

    client = kind("http://superlink", interceptors=interceptors)
    client._client.close()
    client._client = httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=60.0)
    return client


@dataclass(frozen=True)
class NodeOnline:
    """A site that is on: its number, which is another after it came back, and since when."""

    number: int
    since: str


@dataclass(frozen=True)
class Outgoing:
    """A message to a site that is on."""

    node: int
    kind: str
    round: int
    parcel: Parcel
    seconds: float
    """For how long it may be answered."""


@dataclass(frozen=True)
class Incoming:
    """What came of a message: a reply, or why there is none (`unavailable`: it may still come)."""

    message_id: str
    parcel: Parcel | None
    unavailable: bool = False
    why: str = ""


class Control:
    """Registers sites, and starts Flower's run."""

    def __init__(self, socket: Path):
        """Take the SuperLink's socket on this machine."""
        from flwr.supercore.control import ControlHttpClient

        self.client = over_socket(ControlHttpClient, socket, Named("flwr CLI"))

    def register(self, keys: "Mapping[str, ec.EllipticCurvePublicKey]") -> None:
        """Let exactly these sites in, each by its name and public key; who was registered before and is not, is out."""
        from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        wanted = {name: public_key_to_bytes(key) for name, key in keys.items()}
        with in_sentences(SUPERLINK):
            for node in self.client.ListNodes(ListNodesRequest()).nodes_info:
                if node.status == "unregistered":
                    continue
                if wanted.get(node.name) == node.public_key:
                    del wanted[node.name]
                else:
                    self.client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
            for name, key in wanted.items():
                self.client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))

    def start_run(self) -> int:
        """Start a run with a bundle that holds no code, and return its number."""
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        bundle = io.BytesIO()
        with zipfile.ZipFile(bundle, "w") as file:
            file.writestr("pyproject.toml", BUNDLE)
        data = bundle.getvalue()
        with in_sentences(SUPERLINK):
            fab = fab_to_proto(Fab(hashlib.sha256(data).hexdigest(), data, {}))
            return int(self.client.StartRun(StartRunRequest(fab=fab)).run_id)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


class Carrier:
    """Pushes messages to sites and pulls their replies, as the server of one run of Flower's.

    A SuperLink that was killed and started again is waited for. Nothing here ends the process, as Flower's own parts
    do.
    """

    def __init__(self, socket: Path, secret: bytes, run: int, patience: float = 120.0):
        """Take the run's one task, which needs the secret; wait for a SuperLink up to `patience` seconds."""
        self.socket, self.patience, self.run = socket, patience, run
        self._coming: dict[str, Receiving] = {}  # by the number of the message that is answered
        token = self._acquired(secret)
        self.client = self._runtime(Named("flwr-serverapp"), WithToken(token))
        self._take_input()
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._stay_alive, daemon=True, name="motet-heartbeat")
        self._beat.start()

    def _runtime(self, *interceptors: Any) -> Any:
        from flwr.supercore.runtime import RuntimeHttpClient

        return over_socket(RuntimeHttpClient, self.socket, *interceptors)

    def _acquired(self, secret: bytes) -> str:
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor

        protected = frozenset({"/flwr.proto.Runtime/AcquireTask"})
        sign = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=protected)
        client, end = self._runtime(Named("SuperExec"), sign), time.monotonic() + self.patience
        asked = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        try:
            while time.monotonic() < end:
                with in_sentences(SUPERLINK):
                    found = client.AcquireTask(asked)
                if found.token and found.task.run_id == self.run:
                    return str(found.token)
                time.sleep(0.05)
        finally:
            client.close()
        raise MotetError(f"the SuperLink gave no task of its run {self.run} in {self.patience:g} seconds")

    def _take_input(self) -> None:
        from flwr.proto.runtime_pb2 import PullTaskInputRequest
        from flwr.supercore.task_identity import TaskIdentity

        with in_sentences(SUPERLINK):
            told = self.client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = told.task_id, told.run.run_id
        TaskIdentity.node_id = told.context.node_id

    def _stay_alive(self) -> None:
        from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

        while not self._ended.wait(HEARTBEAT / 2):
            with suppress(Exception), in_sentences(SUPERLINK):  # the next one may arrive
                self.client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    def _called(self, call: Callable[[], Any]) -> Any:
        """Return what a call returns; while nobody answers, wait for the SuperLink to come back."""
        end = time.monotonic() + self.patience
        while True:
            try:
                with in_sentences(SUPERLINK):
                    return call()
            except Unreachable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def nodes(self) -> dict[str, NodeOnline]:
        """Return the sites that are on, by name."""
        from flwr.proto.runtime_pb2 import GetNodesRequest

        found = self._called(lambda: self.client.GetNodes(GetNodesRequest())).nodes
        return {node.name: NodeOnline(int(node.node_id), node.last_activated_at) for node in found}

    def push(self, message: Outgoing) -> str:
        """Send a message and return its number; empty if it was not taken.

        A tensor that the SuperLink has already, of the message to another site, is not sent again.
        """
        from flwr.app import Message
        from flwr.common.constant import SUPERLINK_NODE_ID
        from flwr.proto.node_pb2 import Node
        from flwr.proto.runtime_pb2 import PushAppMessagesRequest

        content, group = content_of(message.parcel), str(message.round)
        made = Message(content, message.node, TYPES[message.kind], ttl=message.seconds, group_id=group)
        sending, node = Sending(made), Node(node_id=SUPERLINK_NODE_ID)
        head = PushAppMessagesRequest(messages_list=[sending.head], message_object_trees=[sending.tree])
        told = self._called(
            lambda: sending.push(lambda: self.client.PushMessages(head), self.client.PushObject, node, self.run)
        )
        return str(next(iter(told.message_ids), "") or "")

    def pull(self, message_ids: Sequence[str]) -> Iterator[Incoming]:
        """Yield what came of these messages by now; each reply is given once, and one that is still coming later."""
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest

        self._coming = {id: reply for id, reply in self._coming.items() if id in message_ids}  # others were given up
        if awaited := [id for id in message_ids if id not in self._coming]:
            told = self._called(lambda: self.client.PullMessages(PullAppMessagesRequest(message_ids=awaited)))
            for head, tree in zip(told.messages_list, told.message_object_trees, strict=True):
                self._coming[head.metadata.reply_to_message_id] = Receiving(head, tree)
        for asked in list(self._coming):
            if (incoming := self._received(asked)) is not None:
                del self._coming[asked]
                yield incoming

    def _received(self, asked: str) -> Incoming | None:
        """Return a reply, or why it will not come; None while parts of it are missing."""
        from flwr.common.constant import SUPERLINK_NODE_ID
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
        from flwr.proto.node_pb2 import Node

        reply, node = self._coming[asked], Node(node_id=SUPERLINK_NODE_ID)
        try:
            if not self._called(lambda: reply.is_whole(self.client.PullObject, node)):
                return None
        except Lost as error:
            return Incoming(asked, None, unavailable=True, why=str(error))
        done = ConfirmMessageReceivedRequest(
            node=node, run_id=self.run, message_object_id=reply.head.metadata.message_id
        )
        with suppress(Exception):  # it is here; the SuperLink may keep its copy for longer
            self.client.ConfirmMessageReceived(done)
        return self._incoming(asked, reply.message())

    def _incoming(self, asked: str, message: Any) -> Incoming:
        from flwr.common.constant import ErrorCode

        if message.has_error():
            waiting = (
                ErrorCode.NODE_UNAVAILABLE,
                ErrorCode.MESSAGE_UNAVAILABLE,
                ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
            )
            code = message.error.code
            why = one_sentence(f"Flower's error {code}: {message.error.reason}")[:200]
            return Incoming(asked, None, unavailable=code in waiting, why=why)
        try:
            return Incoming(asked, parcel_of(message.content))
        except MotetError as error:
            return Incoming(asked, None, why=str(error))

    def finish(self) -> None:
        """End the run at the SuperLink, and close the connections."""
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        self._ended.set()
        self._beat.join()  # a thread that is in a call when the process ends makes it abort
        with suppress(Exception), in_sentences(SUPERLINK):
            self.client.PushTaskOutput(PushTaskOutputRequest(sub_status="completed", details=""))
        self.client.close()
