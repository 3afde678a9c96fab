"""The lines between sites and the SuperLink, which break at any moment: no process is started here."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra sites: pip install 'motet[sites]'")

import torch

from motet.sites.flower import parts
from motet.sites.flower.common import PIECE, Refused, Unreachable, content_of, parcel_of
from motet.sites.flower.link import use_little_memory
from motet.sites.flower.parts import Lost, Receiving, Sending
from motet.sites.join import _Connection
from motet.sites.wire import Asked, Parcel, packed, unpacked


def words() -> Asked:
    return Asked(run="0" * 16, site="a", kind="train", round=1, client=0, serial=1, nonce="0" * 32)


def parcel() -> Parcel:
    return packed({"w": torch.arange(PIECE // 4 + 30000, dtype=torch.float32), "n": 3.0}, words())


def message(sent: Parcel) -> Any:
    from flwr.app import Message
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 2, 3
    return Message(content_of(sent), 7, "train", ttl=60.0)


class Store:
    """A SuperLink that has parts of messages, and whose line breaks when it is told to."""

    def __init__(self) -> None:
        self.parts, self.heads, self.calls = dict[str, bytes](), 0, 0
        self.breaks_before: int | None = None
        self.breaks_after: int | None = None

    def push_messages(self, sending: Sending) -> Any:
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

        self.heads += 1
        ids = [each.object_id for each in iterate_object_tree(sending.tree)]
        return SimpleNamespace(session_id="s", objects_to_push=ids, message_ids=[sending.head.metadata.message_id])

    def push_object(self, asked: Any) -> Any:
        self.calls += 1
        if self.calls == self.breaks_before:
            raise Unreachable("the line broke")
        stored = asked.object_id not in self.parts
        self.parts[asked.object_id] = asked.object_content
        if self.calls == self.breaks_after:
            raise Unreachable("the line broke")
        return SimpleNamespace(stored=stored)

    def pull_object(self, asked: Any) -> Any:
        content = self.parts.get(asked.object_id, b"")
        return SimpleNamespace(object_found=True, object_available=bool(content), object_content=content)

    def push(self, sending: Sending) -> None:
        from flwr.proto.node_pb2 import Node

        sending.push(lambda: self.push_messages(sending), self.push_object, Node(node_id=1), 2)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_message_goes_on_where_the_line_broke_and_is_still_the_same_message(when: str) -> None:
    """Flower takes one reply to a message: a second one, made anew after a break, would be thrown away."""
    sent, store = parcel(), Store()
    setattr(store, f"breaks_{when}", 2)
    sending = Sending(message(sent))
    with pytest.raises(Unreachable):
        store.push(sending)
    store.push(sending)
    assert store.heads == 1 and store.calls == len(store.parts) + 1
    receiving = Receiving(sending.head, sending.tree)
    assert receiving.is_whole(store.pull_object, None)
    came = parcel_of(receiving.message().content)
    assert came.words == sent.words and torch.equal(unpacked(came)["w"], unpacked(sent)["w"])  # type: ignore[arg-type]


def test_a_part_that_is_not_taken_without_a_break_is_refused() -> None:
    sending, store = Sending(message(parcel())), Store()
    store.push(sending)
    again = Sending(message(parcel()))
    with pytest.raises(Refused, match="does not take a part"):
        store.push(again)


def test_nobody_waits_for_parts_that_are_still_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    store.breaks_before = 2
    sending = Sending(message(parcel()))
    with pytest.raises(Unreachable):
        store.push(sending)
    receiving = Receiving(sending.head, sending.tree)
    assert not receiving.is_whole(store.pull_object, None)  # at once: others may have something to say
    monkeypatch.setattr(parts, "STALL", -1.0)
    with pytest.raises(Lost, match="no part of a message came"):
        receiving.is_whole(store.pull_object, None)
    store.push(sending)
    assert receiving.is_whole(store.pull_object, None)


def test_a_message_whose_sender_is_gone_is_lost() -> None:
    sending = Sending(message(parcel()))
    gone = SimpleNamespace(object_found=False, object_available=False, object_content=b"")
    with pytest.raises(Lost, match="its sender was gone"):
        Receiving(sending.head, sending.tree).is_whole(lambda _: gone, None)


def test_a_site_ends_after_its_sign_of_life_is_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is in a call when Python ends makes the process abort ("terminate called ...", code -6)."""
    in_call, go_on = threading.Event(), threading.Event()

    class Line:
        address = "fl.example.org:8000"

        def sign_on(self) -> int:
            return 1

        def heartbeat(self) -> bool:
            in_call.set()
            assert go_on.wait(30)
            return True

        def pull(self) -> None:
            assert in_call.wait(30)
            site.ended = True
            threading.Timer(0.3, go_on.set).start()

        def close(self) -> None:
            pass

    site = SimpleNamespace(name="a", ended=False, disk=SimpleNamespace(node=None))
    monkeypatch.setattr("motet.sites.join.HEARTBEAT", 0.03)
    _Connection(Line(), site, lambda _: None).serve()  # type: ignore[arg-type]
    assert not [t for t in threading.enumerate() if t.name == "motet-heartbeat"]


def test_a_model_is_held_once() -> None:
    """A message of a model was copied five times on its way in a site, and the copies of all sites stood beside it."""
    w = torch.arange(PIECE, dtype=torch.float32)
    sent = packed({"w": w}, words())
    assert isinstance(sent.tensors["w"].data, memoryview)  # of the tensor itself
    content = content_of(sent)
    came = parcel_of(content)
    assert not content and isinstance(came.tensors["w"].data, bytearray)
    got = unpacked(came)["w"]
    assert isinstance(got, torch.Tensor) and torch.equal(got, w)
    came.tensors["w"].data[:4] = b"\x00\x00\x80\x3f"  # the number 1 in the same memory
    assert got[0] == 1


def test_sqlite_keeps_little_of_what_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its connections kept 64 MB, and 256 MB of the file were mapped: a SuperLink took 2 GB."""
    from flwr.supercore import sql_mixin

    before = dict(sql_mixin.SQLITE_PRAGMAS)
    monkeypatch.setattr(sql_mixin, "SQLITE_PRAGMAS", sql_mixin.SQLITE_PRAGMAS)
    use_little_memory()
    after = dict(sql_mixin.SQLITE_PRAGMAS)
    changed = {name: value for name, value in after.items() if before[name] != value}
    assert changed == {"cache_size": "-2000", "mmap_size": "0"} and before.keys() == after.keys()
