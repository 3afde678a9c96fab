"""The status page in a real browser: it shows sites, rounds and who is late, asks for news, and asks nobody else."""

from collections.abc import Iterator
from typing import Any

import pytest

from motet.errors import MotetError
from motet.report.page.write import browser
from motet.sites.board import Board
from motet.sites.status import StatusPage, page, policy

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def round_row(round: int, **aside: str) -> dict[str, Any]:
    return {
        "round": round,
        "seconds": 1.25,
        "cohort": [0, 1, 2],
        "set_aside": aside,
        "bytes_up": 10,
        "bytes_down": 20,
    }


@pytest.fixture
def board() -> Board:
    board = Board(["hospital-a", "hospital-b", "<b>hospital-c</b>"])
    board.about(method="fedrod", rounds=5, metric="accuracy", folder="runs/x")
    return board


@pytest.fixture
def status(board: Board) -> Iterator[StatusPage]:
    served = StatusPage(board)
    yield served
    served.stop()


def test_it_is_on_loopback_for_who_calls_it_by_its_name(status: StatusPage) -> None:
    httpx = pytest.importorskip("httpx", reason="needs the extra sites")
    assert status.address.startswith("http://127.0.0.1:")
    assert httpx.get(status.address).status_code == 200
    assert httpx.get(f"{status.address}other").status_code == 404
    assert httpx.get(status.address, headers={"Host": "evil.example"}).status_code == 403  # no rebinding of names
    assert httpx.get(f"{status.address}status.json").json()["about"]["method"] == "fedrod"


def test_a_port_that_is_taken_is_said(status: StatusPage, board: Board) -> None:
    port = int(status.address.rstrip("/").rpartition(":")[2])
    with pytest.raises(MotetError, match=rf"^--status-port is {port}, .*; accepted: a free port"):
        StatusPage(board, port)


def test_the_page_has_the_report_s_style_and_takes_nothing_from_elsewhere() -> None:
    text = page()
    assert "{{" not in text and "--ground" in text and "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in policy(text)


@pytest.mark.skipif(browser() is None, reason="no Chromium or Chrome on this machine")
def test_in_a_browser_it_shows_what_happens_as_it_happens(status: StatusPage, board: Board) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=browser(), args=QUIET)
        opened = chromium.new_page()
        asked, wrong = list[str](), list[str]()
        opened.on("request", lambda request: asked.append(request.url))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        opened.goto(status.address)
        opened.locator("#sites tr").nth(2).wait_for()  # a predicate would need eval, which the page forbids
        assert "Waiting for the sites" in opened.inner_text("h1")
        assert "<b>hospital-c</b>" in opened.inner_text("#sites")  # a name is text
        board.site("hospital-a", "working", "train of round 2")
        board.site("hospital-b", "working", "train of round 2", late=True)
        board.round(round_row(1, **{"hospital-b": "no answer in 5 s"}), 0.75, 0.875)
        board.say("asking hospital-b again, which came back")
        opened.locator("#personal", has_text="0.875").wait_for(timeout=20_000)
        assert opened.inner_text("#generic") == "0.75" and opened.inner_text("#round") == "1"
        assert "Late: hospital-b." in opened.inner_text("#see")
        assert "working: train of round 2 (late)" in opened.inner_text("#sites")
        assert "no answer in 5 s" in opened.inner_text("#rounds")
        assert "asking hospital-b again" in opened.inner_text("#lines")
        board.about(ended="the run is finished")
        opened.locator("h1", has_text="The run is finished").wait_for(timeout=20_000)
        assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        chromium.close()
    assert wrong == [] and all(url.startswith(status.address) for url in asked)
