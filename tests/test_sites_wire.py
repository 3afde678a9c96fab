"""The bytes that leave a site, decoded for every method: no private state, no rows, no class counts unless `tells`
names them, and nothing that its consent does not name."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("cryptography", reason="needs the extra sites: pip install 'motet[sites]'")

from site_runs import digits_tables, experiment_values

from motet.config.experiment import resolve
from motet.data.own_site import read_site_table
from motet.messages.message import State, decode, encode
from motet.messages.task import Task
from motet.methods import METHODS
from motet.server.assembly import method_of
from motet.sites.consent import consent_to
from motet.sites.settling import settled_for_sites
from motet.sites.wire import Replied, new_nonce, packed, unpacked
from motet.sites.workshop import Workshop
from motet.testing.privacy import COUNTS, found_in
from motet.testing.twin import Exchange

NOT_AT_SITES = {"centralized", "shared-data", "meta-bsm", "fedbn", "krum", "multi-krum", "apple", "l2gd"}
"""Refused at real sites, or in need of another net or of more clients than three."""
SMALLER = {"fedgen": "fedgen(noise=8, hidden=16, steps=5)"}


def name_of(method: str) -> str:
    whole = SMALLER.get(method, method)
    return whole if METHODS[method].kind != "personalization" else f"fedavg+{whole}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    digits_tables(folder, rows=150)
    return folder


@pytest.mark.parametrize("method", sorted(set(METHODS) - NOT_AT_SITES))
def test_what_leaves_a_site_is_what_it_consented_to_and_no_secret(method: str, tables: Path) -> None:
    torch.set_num_threads(1)
    changes: dict[str, Any] = {"local": {"momentum_across_rounds": "persist"}}
    experiment = settled_for_sites(resolve(experiment_values(name_of(method), **changes)))
    table = read_site_table(experiment.data, tables / "hospital-a.csv", tables / "schema.toml")
    shop = Workshop(experiment, table, 0, 3, "hospital-a")
    own = shop.data()
    consent = consent_to("0" * 16, shop, own, "test")
    place, server_method = shop.workplace(own), method_of(experiment, shop.facts(own))
    server: State = {**server_method.start(), "round": 1}
    if server_method.prepares:
        asked = Task("prepare", 0, 0, server_method.broadcast(server, 0))
        prepared = place.perform(asked, {}).reply
        assert prepared is not None
        consent.refuse_reply("prepare", prepared, None)
        server = {**server_method.prepared(server, {0: prepared}), "round": 1}
    private: State = {}
    for round in (1, 2):
        message = server_method.broadcast({**server, "round": round}, 0)
        task = Task("train", 0, round, message)
        outcome = place.perform(task, private)
        assert outcome.reply is not None and outcome.private is not None
        consent.refuse_reply("train", outcome.reply, outcome.train_loss)
        words = Replied(run="0" * 16, site="hospital-a", kind="train", round=round, client=0, nonce=new_nonce())
        parcel = packed(outcome.reply, words)
        sent = encode(unpacked(parcel))  # as an eavesdropper inside TLS would decode it
        seen = Exchange(task, encode(message), sent, private, outcome.private)
        found = found_in(sent, seen, place.client(task, private))
        allowed = {name for name in found if name.startswith(COUNTS) and COUNTS in server_method.tells}
        assert found - allowed == set(), f"{method} gives away {found - allowed}"
        assert not any(private_name.encode() in parcel.words for private_name in outcome.private)
        private = decode(encode(outcome.private))
    score = place.perform(Task("score", 0, 2, dict(server_method.broadcast(server, 0, scoring=True))), private)
    assert score.reply is not None
    consent.refuse_reply("score", score.reply, None)
    assert not [name for name, value in score.reply.items() if isinstance(value, torch.Tensor)]
