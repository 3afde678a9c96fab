"""The SuperLink in a process of its own, which ends with the coordinator.

Sites reach a few paths of it, over TLS: those of Flower's fleet protocol (`OPEN`). Everything else, by which nodes are
registered and runs started, answers on a socket in the file system that this user alone can reach. The listening port
belongs to the coordinator: a SuperLink that was killed is started again on the same one, with its database.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from motet.errors import MotetError, shown
from motet.sites.certificates import CA, SERVER, SERVER_KEY
from motet.sites.flower.link import OPEN, environment, superlink_app

START = 90.0
"""Seconds that a SuperLink may take to start on a busy machine."""
MOST_RESTARTS = 100
WHY = {
    401: "the key is of no site, the name is another's, or the call is older than it may be",
    404: "sites may not reach it",
    412: "no site of this run has that key, or the site is still signed on",
}
REFUSED = "refused: "
OFTEN = 60.0
"""Seconds in which the same refusal is said once."""
SECRET, DATABASE, LOG = "superexec.secret", "superlink.db", "superlink.log"


class SuperLink:
    """The coordinator's view of the process: where it listens, its socket, and how to end it."""

    def __init__(self, folder: Path, certs: Path, host: str, port: int, said: Callable[[str], None]):
        """Listen at once; raise a `MotetError` if that cannot be. The process starts with `start`."""
        self.folder, self.certs, self.said = folder, certs, said
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listening = socket.create_server((host, port), family=family, backlog=128)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise MotetError(f"--address is {shown(f'{host}:{port}')}, where nobody can listen ({why})") from None
        self.port: int = self._listening.getsockname()[1]
        self._private = Path(tempfile.mkdtemp(prefix="motet-"))  # a socket's path must be short; mode 700
        self.socket = self._private / "superlink"
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._restarts, self._opened = 0, False

    @property
    def secret(self) -> bytes:
        """The secret without which nobody takes over the run of this SuperLink."""
        return (self.folder / SECRET).read_bytes()

    @property
    def pid(self) -> int | None:
        """The process id, for tests."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process, wait until it answers, and start it again whenever it dies."""
        path = self.folder / SECRET
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(32))
        self._launch()
        self._wait_until_it_answers()
        threading.Thread(target=self._watch, daemon=True, name="motet-superlink").start()

    def _launch(self) -> None:
        with suppress(FileNotFoundError):
            self.socket.unlink()
        number = self._listening.fileno()
        command = [sys.executable, "-m", "motet.sites.superlink"]
        command += [str(number), str(self.socket), str(self.folder), str(self.certs), str(os.getpid())]
        with open(self.folder / LOG, "ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment(self.folder / "flower"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[number],
                start_new_session=True,  # Ctrl-C is for the coordinator, which ends it
            )
        if self._opened:
            self.open()
        assert self._process.stdout is not None
        threading.Thread(target=self._listen, args=[self._process.stdout], daemon=True, name="motet-refused").start()

    def open(self) -> None:
        """Let sites in, once they are registered; until then their calls wait."""
        self._opened = True
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it just died, and is started again
                self._process.stdin.write(b"open\n")
                self._process.stdin.flush()

    def _listen(self, lines: IO[bytes]) -> None:
        """Pass on what the process says of calls that it refused; other words of Flower's are for its log."""
        with lines, open(self.folder / LOG, "ab") as log:
            for line in lines:
                if line.startswith(REFUSED.encode()):
                    self.said(line.decode(errors="replace").strip()[:300])
                else:
                    log.write(line)
                    log.flush()

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + START
        while time.monotonic() < end:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket))
                return
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(0.05)
        said = (self.folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise MotetError(f"the SuperLink does not start ({(said or ['no word'])[-1][:200]}); see {self.folder / LOG}")

    def _watch(self) -> None:
        while not self._ending.is_set():
            process = self._process
            if process is not None and process.poll() is not None and not self._ending.is_set():
                self._restarts += 1
                self.said(f"the SuperLink ended (code {process.returncode}); it is started again")
                if self._restarts > MOST_RESTARTS:
                    return
                self._launch()
                with suppress(MotetError):
                    self._wait_until_it_answers()
            self._ending.wait(0.2)

    def stop(self) -> None:
        """End the process and close the port; a second call does nothing."""
        self._ending.set()
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listening.close()
        shutil.rmtree(self._private, ignore_errors=True)


# -------- The process


def only_the_fleet(app: Any) -> Any:
    """Return the application as sites see it: with the paths of the fleet protocol alone."""

    said: dict[tuple[str, str, int], float] = {}
    whole = bodies_at_once(app)

    def tell(scope: dict[str, Any], status: int) -> None:
        who = str((scope.get("client") or ("somebody",))[0])
        what = (who, str(scope["path"])[:100], status)
        if time.monotonic() - said.get(what, -OFTEN) >= OFTEN:
            said[what] = time.monotonic()
            print(f"{REFUSED}a call of {what[1]!r} from {who} ({status}: {WHY.get(status, 'not allowed')})", flush=True)

    async def filtered(
        scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        async def heard(event: Any) -> None:
            if event["type"] == "http.response.start" and event["status"] >= 400:
                tell(scope, event["status"])
            await send(event)

        if scope["type"] == "http" and scope["path"] in OPEN and scope["method"] == "POST":
            await whole(scope, receive, heard)
        elif scope["type"] == "http":
            tell(scope, 404)
            body = b"this address serves sites of Motet alone\n"
            headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 404, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    return filtered


def bodies_at_once(app: Any) -> Any:
    """Return the application with each request's body in one piece, instead of thousands that pass its many layers."""

    async def joined(
        scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        body = bytearray()
        event = await receive()
        while event["type"] == "http.request":
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
            event = await receive()
        first = [event if event["type"] != "http.request" else {**event, "body": bytes(body)}]
        del body, event

        async def again() -> Any:
            return first.pop() if first else await receive()

        await app(scope, again, send)

    return joined


async def _serve(app: Any, outside: socket.socket, inside: socket.socket, certs: Path, parent: int) -> None:
    """Serve both sockets until a signal comes or the coordinator is gone."""
    import uvicorn

    class Server(uvicorn.Server):  # type: ignore[misc]
        """A server that leaves signals to this process."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals as they are."""
            yield

    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_keep_alive": 120}
    tls = {"ssl_certfile": str(certs / SERVER), "ssl_keyfile": str(certs / SERVER_KEY)}
    inner = Server(uvicorn.Config(bodies_at_once(app), lifespan="on", **quiet))
    outer = Server(uvicorn.Config(only_the_fleet(app), lifespan="off", **tls, **quiet))

    def end() -> None:
        inner.should_exit = outer.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)

    async def end_with_the_coordinator() -> None:
        while not inner.should_exit:
            if os.getppid() != parent:
                os._exit(0)  # nobody is there any more to read a reply
            await asyncio.sleep(0.5)

    async def let_sites_in() -> None:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)  # until `SuperLink.open`
        await outer.serve([outside])

    await asyncio.gather(inner.serve([inside]), let_sites_in(), end_with_the_coordinator())


def main(words: list[str]) -> None:
    """Run the SuperLink; the words are those of `SuperLink._launch`."""
    number, path, folder, certs, parent = int(words[0]), words[1], Path(words[2]), Path(words[3]), int(words[4])
    app = superlink_app(
        [
            *("--isolation", "process", "--superexec-auth-secret-file", str(folder / SECRET)),
            *("--database", str(folder / DATABASE), "--enable-supernode-auth"),
            "--disable-runtime-dependency-installation",
            *("--ssl-ca-certfile", str(certs / CA), "--ssl-certfile", str(certs / SERVER)),
            *("--ssl-keyfile", str(certs / SERVER_KEY)),
        ]
    )
    inside = socket.socket(socket.AF_UNIX)
    inside.bind(path)
    os.chmod(path, 0o600)
    inside.listen(64)
    asyncio.run(_serve(app, socket.socket(fileno=number), inside, certs, parent))


if __name__ == "__main__":
    main(sys.argv[1:])
