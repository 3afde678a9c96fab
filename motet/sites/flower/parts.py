"""Messages in parts: what is on its way, in either direction, goes on where it was when the line broke.

Flower registers a message by its head first, and its parts follow in calls of their own. So a head may be there whose
parts are still coming, or never will: of a sender that was killed. Nobody here waits for parts: `Receiving` takes what
is there and says whether the message is whole. A message has one reply, and the SuperLink accepts no other: `Sending`
is that one reply, however often the line breaks, and goes on with the parts that are left.
"""

import time
from collections.abc import Callable
from typing import Any

from motet.errors import MotetError
from motet.sites.flower.common import Refused

STALL = 60.0
"""Seconds without another part after which a message counts as lost; its sender is made to send it again."""


class Lost(MotetError):
    """A message will not arrive whole."""


class Sending:
    """A message of Flower's on its way to the SuperLink."""

    def __init__(self, message: Any):
        """Take a message, whose number depends on content and time, and is the same however often it is sent."""
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )

        with no_object_id_recompute():  # otherwise each part is made and hashed for each of its parents
            vars(message.metadata)["_message_id"] = message.object_id
            self.head = message_to_proto(remove_content_from_message(message))
            self.tree = get_object_tree(message)
            self._parts: dict[str, Any] = get_all_nested_objects(message)
        self._told: Any = None
        self._left: list[str] = []
        self._broken = False

    def push(self, push_messages: Callable[[], Any], push_object: Callable[[Any], Any], node: Any, run: int) -> Any:
        """Send the head and the parts that the SuperLink lacks, and return what it said to the head.

        If the line breaks, the next call goes on from there. The part that was on its way then may have arrived: one
        that is not taken after a break is no error. Otherwise it is a `Refused`: the run is over, or was away for long.
        """
        from flwr.proto.message_pb2 import PushObjectRequest

        if self._told is None:
            self._told = push_messages()
            lacking = set(self._told.objects_to_push)
            self._left = [id for id in self._parts if id in lacking]
        while self._left:
            id, session = self._left[0], self._told.session_id
            content = self._parts[id].deflate()
            asked = PushObjectRequest(node=node, run_id=run, session_id=session, object_id=id, object_content=content)
            del content
            after_a_break, self._broken = self._broken, True
            stored = push_object(asked).stored
            self._broken = False
            if not stored and not after_a_break:
                raise Refused("the SuperLink does not take a part of a message")
            del self._left[0]
        return self._told


class Receiving:
    """A message of Flower's on its way from the SuperLink: its head is here, its parts come as they are there."""

    def __init__(self, head: Any, tree: Any):
        """Take what the SuperLink told of a message."""
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

        self.head, self.tree = head, tree
        self._left = list(dict.fromkeys(each.object_id for each in iterate_object_tree(tree)))
        self._parts = dict[str, bytes]()
        self._last = time.monotonic()

    def is_whole(self, pull_object: Callable[[Any], Any], node: Any) -> bool:
        """Take the parts that are there, and return whether these are all; raise `Lost` for a message without hope."""
        from flwr.proto.message_pb2 import PullObjectRequest

        while self._left:
            asked = PullObjectRequest(node=node, run_id=self.head.metadata.run_id, object_id=self._left[0])
            found = pull_object(asked)
            if not found.object_found:
                raise Lost("a part of a message is gone, because its sender was gone for long")
            if not found.object_available:
                if time.monotonic() - self._last > STALL:
                    raise Lost(f"no part of a message came for {STALL:g} s")
                return False
            self._parts[self._left.pop(0)] = found.object_content
            self._last = time.monotonic()
        return True

    def message(self) -> Any:
        """Return the message, once it is whole; this can be done once."""
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        message: Any = inflate_object_from_contents(self.tree.object_id, self._parts)
        vars(message.metadata)["_message_id"] = self.head.metadata.message_id
        return message
