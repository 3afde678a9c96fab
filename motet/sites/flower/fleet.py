"""A site's line to the SuperLink: one process that signs on, pulls messages and pushes replies, without a SuperNode."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.errors import MotetError, one_sentence
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
from motet.sites.wire import Parcel

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Arrived:
    """A message that came to a site: its parcel, and what a reply needs."""

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

    def sign_on(self) -> int:
        """Activate this node, and return its number; raise `Refused` if it is not registered or still counts as on."""
        from flwr.proto.fleet_pb2 import ActivateNodeRequest
        from flwr.proto.node_pb2 import Node

        with in_sentences(self.address):
            asked = ActivateNodeRequest(public_key=self.signer.public, heartbeat_interval=HEARTBEAT)
            self.node = Node(node_id=self.client.ActivateNode(asked).node_id)
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
        """Return the next message to this site, or None; it is delivered once."""
        from flwr.proto.fleet_pb2 import PullMessagesRequest
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import (
            ObjectPullError,
            inflate_object_from_contents,
            pull_objects,
        )

        with in_sentences(self.address):
            found = self.client.PullMessages(PullMessagesRequest(node=self.node))
            if not found.messages_list:
                return None
            head, tree = found.messages_list[0], found.message_object_trees[0]
            run, id = head.metadata.run_id, head.metadata.message_id
            pull = make_pull_object_fn_protobuf(self.client.PullObject, self.node, run)
            try:
                parts = pull_objects([each.object_id for each in iterate_object_tree(tree)], pull)
            except ObjectPullError:  # it is given once: its sender must be made to send it again
                raise Unreachable("a message did not arrive whole") from None
            self.client.ConfirmMessageReceived(
                ConfirmMessageReceivedRequest(node=self.node, run_id=run, message_object_id=id)
            )
        message: Any = inflate_object_from_contents(tree.object_id, parts)
        vars(message.metadata)["_message_id"] = id
        return Arrived(parcel_of(message.content), message, time.monotonic())

    def push(self, asked: Arrived, parcel: Parcel) -> None:
        """Send a reply; raise `Refused` if the run is over or the message has expired."""
        from flwr.app import Message
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.proto.fleet_pb2 import PushMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import ObjectPushError, push_objects

        reply = Message(content_of(parcel), reply_to=asked.message, ttl=1.0)
        of = asked.message.metadata
        reply.metadata.created_at = self.signer.now().timestamp()
        reply.metadata.ttl = of.created_at + of.ttl - reply.metadata.created_at
        if reply.metadata.ttl <= 0:
            raise Refused("the message expired before it was answered")
        with in_sentences(self.address), no_object_id_recompute():
            vars(reply.metadata)["_message_id"] = reply.object_id
            told = self.client.PushMessages(
                PushMessagesRequest(
                    node=self.node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[time.monotonic() - asked.began],
                )
            )
            push = make_push_object_fn_protobuf(self.client.PushObject, self.node, of.run_id, told.session_id)
            try:
                push_objects(get_all_nested_objects(reply), push, object_ids_to_push=set(told.objects_to_push))
            except ObjectPushError as error:
                raise Refused(f"the reply was not taken ({one_sentence(str(error))[:120]})") from None

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
