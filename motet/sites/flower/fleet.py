"""A site's line to the SuperLink: one process that signs on, pulls messages and pushes replies, without a SuperNode."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.errors import MotetError
from motet.io.memory_limits import return_freed_memory
from motet.sites.flower.common import (
    HEARTBEAT,
    Named,
    Refused,
    SignedByNode,
    Unreachable,
    content_of,
    in_sentences,
    parcel_of,
)
from motet.sites.flower.parts import Lost, Receiving, Sending
from motet.sites.wire import Parcel

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Arrived:
    """A message that came to a site: its parcel, and what a reply needs, which is Flower's message without content."""

    parcel: Parcel
    message: Any
    began: float


class Fleet:
    """A site's line to the SuperLink: sign on, pull messages, push replies. Every call may raise `Unreachable`."""

    def __init__(self, address: str, ca: Path, key: "ec.EllipticCurvePrivateKey"):
        from flwr.supernode.fleet_http_client import FleetHttpClient

        self.address, self.signer = address, SignedByNode(key)
        with in_sentences(address):
            self.client = FleetHttpClient.from_server_address(
                address, False, ca.read_bytes(), interceptors=[Named("SuperNode"), self.signer]
            )
        self.node: Any = None
        self._coming: list[Receiving] = []

    def sign_on(self) -> int:
        """Activate this node, and return its number; raise `Refused` if it is not registered or still counts as on."""
        from flwr.proto.fleet_pb2 import ActivateNodeRequest
        from flwr.proto.node_pb2 import Node

        with in_sentences(self.address):
            asked = ActivateNodeRequest(public_key=self.signer.public, heartbeat_interval=HEARTBEAT)
            self.node = Node(node_id=self.client.ActivateNode(asked).node_id)
        self._coming = []  # whoever signs on anew is asked again
        return int(self.node.node_id)

    def sign_off(self, node: int) -> None:
        """Tell that this node is gone, or that a killed process of it is; nothing happens if it was not on."""
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest

        with suppress(MotetError), in_sentences(self.address):
            self.client.DeactivateNode(DeactivateNodeRequest(node_id=node))

    def heartbeat(self) -> bool:
        """Give a sign of life; return whether the SuperLink knows this node."""
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        with in_sentences(self.address):
            asked = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=HEARTBEAT)
            return bool(self.client.SendNodeHeartbeat(asked).success)

    def pull(self) -> Arrived | None:
        """Return the next message to this site that is here whole, or None; it is delivered once.

        Raise `Unreachable` for one that will never be whole: who signs on anew is asked again.
        """
        from flwr.proto.fleet_pb2 import PullMessagesRequest

        with in_sentences(self.address):
            found = self.client.PullMessages(PullMessagesRequest(node=self.node))
        for head, tree in zip(found.messages_list, found.message_object_trees, strict=True):
            self._coming.append(Receiving(head, tree))
        for receiving in self._coming:
            if self._is_whole(receiving):
                # an older one that is not: of a coordinator that was killed, and asks again since
                self._coming = self._coming[self._coming.index(receiving) + 1 :]
                return self._arrived(receiving)
        return None

    def _is_whole(self, receiving: Receiving) -> bool:
        try:
            with in_sentences(self.address):
                return receiving.is_whole(self.client.PullObject, self.node)
        except Lost as error:
            self._coming.remove(receiving)
            raise Unreachable(str(error)) from None
        except Refused:  # of a run that is over: nobody waits for an answer
            self._coming.remove(receiving)
            return False

    def _arrived(self, receiving: Receiving) -> Arrived:
        from flwr.app.message import remove_content_from_message
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest

        of = receiving.head.metadata
        done = ConfirmMessageReceivedRequest(node=self.node, run_id=of.run_id, message_object_id=of.message_id)
        with suppress(MotetError), in_sentences(self.address):  # it is here; the SuperLink may keep its copy for longer
            self.client.ConfirmMessageReceived(done)
        message = receiving.message()
        return_freed_memory()
        return Arrived(parcel_of(message.content), remove_content_from_message(message), time.monotonic())

    def reply(self, asked: Arrived, parcel: Parcel) -> Sending:
        """Return the reply to a message, ready to be pushed; raise `Refused` if the message has expired."""
        from flwr.app import Message

        reply = Message(content_of(parcel), reply_to=asked.message, ttl=1.0)
        of = asked.message.metadata
        reply.metadata.created_at = self.signer.now().timestamp()
        reply.metadata.ttl = of.created_at + of.ttl - reply.metadata.created_at
        if reply.metadata.ttl <= 0:
            raise Refused("the message expired before it was answered")
        return Sending(reply)

    def push(self, asked: Arrived, reply: Sending) -> None:
        """Send a reply, or go on with it; raise `Refused` if the run is over or the reply was away for too long."""
        from flwr.proto.fleet_pb2 import PushMessagesRequest

        head = PushMessagesRequest(
            node=self.node,
            messages_list=[reply.head],
            message_object_trees=[reply.tree],
            clientapp_runtime_list=[time.monotonic() - asked.began],
        )
        with in_sentences(self.address):
            run = asked.message.metadata.run_id
            reply.push(lambda: self.client.PushMessages(head), self.client.PushObject, self.node, run)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
