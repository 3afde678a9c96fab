"""The status page of a run at real sites: on loopback, in the style of the report, it asks for news every second."""

import socket
import threading
from base64 import b64encode
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from motet.errors import MotetError
from motet.io.json_models import to_json
from motet.report.charts.pen import style_sheet
from motet.sites.board import Board

LOOPBACK = "127.0.0.1"


def page() -> str:
    """Return the page, with its style and script in it."""
    text = files("motet.sites").joinpath("status.html").read_text(encoding="utf-8")
    style = files("motet.report.page").joinpath("page.css").read_text(encoding="utf-8")
    return text.replace("{{ colours }}", style_sheet()).replace("{{ style }}", style)


def policy(text: str) -> str:
    """Return the page's rules for a browser: its own script and style, news from its own address, nothing else."""
    script = text.partition("<script>")[2].partition("</script>")[0]
    mark = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{mark}'; connect-src 'self'"


class StatusPage:
    """A small server for one page, which ends with the coordinator."""

    def __init__(self, board: Board, port: int = 0):
        """Listen on loopback; raise a `MotetError` if the port is taken."""
        text = page()
        rules = policy(text)

        class Handler(BaseHTTPRequestHandler):
            """Answers for the page and for its news, to who asks this machine by its own name."""

            def do_GET(self) -> None:
                """Send the page, or the state of the run as JSON."""
                host = self.headers.get("Host", "").rpartition(":")[0]
                if host not in (LOOPBACK, "localhost"):  # another site's page in a browser here may not read it
                    self._send(403, "text/plain", b"this page is for this machine alone\n")
                elif self.path == "/":
                    self._send(200, "text/html; charset=utf-8", text.encode())
                elif self.path == "/status.json":
                    self._send(200, "application/json", to_json(board.snapshot()).encode())
                else:
                    self._send(404, "text/plain", b"there is one page: /\n")

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                for name, value in (
                    ("Content-Type", kind),
                    ("Content-Length", str(len(body))),
                    ("Cache-Control", "no-store"),
                    ("Content-Security-Policy", rules),
                    ("X-Content-Type-Options", "nosniff"),
                ):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise MotetError(
                f"--status-port is {port}, where nobody can listen ({why}); accepted: a free port"
            ) from None
        self._server.daemon_threads = True
        self._server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="motet-status").start()

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
