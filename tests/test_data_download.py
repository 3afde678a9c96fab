"""The one download: whole and checked or not there, going on where it stopped."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from motet.data.sources.fetch import fetch
from motet.errors import MotetError

CONTENT = bytes(range(256)) * 5000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; may break off in the middle, may not know ranges."""

    asked: ClassVar[list[str | None]] = []
    sends = len(CONTENT)
    knows_ranges = True

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        Handler.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.knows_ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.sends])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Handler, "asked", [])
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file.bin"
        server.shutdown()
        thread.join()


def test_a_file_is_fetched_once(address: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.bin"
    for _ in range(2):
        fetch(address, path, SHA256, "data 'x'")
    assert path.read_bytes() == CONTENT
    assert Handler.asked == [None]
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_it_goes_on_where_it_stopped(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows_ranges: bool
) -> None:
    path = tmp_path / "file.bin"
    monkeypatch.setattr(Handler, "sends", 700_000)
    with pytest.raises(MotetError, match=r"could not be fetched to .*700000 of 1280000 bytes; asked again, it goes on"):
        fetch(address, path, SHA256, "data 'x'")
    assert not path.exists()
    monkeypatch.setattr(Handler, "sends", len(CONTENT))
    monkeypatch.setattr(Handler, "knows_ranges", knows_ranges)
    fetch(address, path, SHA256, "data 'x'")
    assert path.read_bytes() == CONTENT
    assert Handler.asked == [None, "bytes=700000-"]


@pytest.mark.parametrize("left", [b"something else", CONTENT + b"more", b"\0" * len(CONTENT)])
def test_a_part_of_another_file_is_dropped(address: str, tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "file.bin"
    (tmp_path / "file.bin.part").write_bytes(left)
    fetch(address, path, SHA256, "data 'x'")
    assert path.read_bytes() == CONTENT
    assert Handler.asked == [f"bytes={len(left)}-", None]


def test_a_complete_part_needs_no_second_download(address: str, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    fetch(address, tmp_path / "file.bin", SHA256, "data 'x'")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert Handler.asked == [f"bytes={len(CONTENT)}-"]


def test_other_content_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(MotetError, match=f"data 'x': {address} has SHA-256 {SHA256}; accepted: {'0' * 64}"):
        fetch(address, tmp_path / "file.bin", "0" * 64, "data 'x'")
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_fetch_it_once(address: str, tmp_path: Path) -> None:
    errors: list[Exception] = []

    def one() -> None:
        try:
            fetch(address, tmp_path / "file.bin", SHA256, "data 'x'")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert Handler.asked == [None]
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]


def test_no_network(tmp_path: Path) -> None:
    with pytest.raises(MotetError, match="could not be fetched to"):
        fetch("http://127.0.0.1:9/file.bin", tmp_path / "file.bin", SHA256, "data 'x'")
    assert list(tmp_path.iterdir()) == []
