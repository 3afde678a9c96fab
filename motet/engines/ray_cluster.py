"""Join a Ray cluster, or start one on this machine that only this machine can reach.

Ray is an extra (`pip install motet[ray]`) and is imported when an experiment asks for it. Whoever reaches a port of
Ray runs code there, so a cluster that is started here listens on loopback alone and asks for a token.
"""

import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from motet.errors import MotetError, shown

LONGEST = 40  # characters of a folder for Ray: the names of its sockets must have no more than 107
LOOPBACK = "127.0.0.1"
CONNECT = 10.0  # seconds for the head of a cluster to answer
SURROUNDINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray sends no statistics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without a GPU leave CUDA_VISIBLE_DEVICES as it is
    "RAY_worker_niceness": "0",  # workers are served as the pool's are, not after everything else (15)
}


def import_ray() -> Any:
    """Return the module `ray`, set up to send no statistics; raise `MotetError` where it is not installed."""
    for name, value in SURROUNDINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MotetError(
            f"engine.name is 'ray', but Ray cannot be imported ({error}); accepted: pip install 'motet[ray]', or "
            f"engine.name=pool"
        ) from None
    return ray


class Cluster:
    """A Ray cluster that this process is part of, until `leave`."""

    def __init__(self, address: str = "", workers: int = 0):
        """Join the cluster at `address`; without one, start Ray here with so many CPUs (0: one per core).

        A process that is part of a cluster already stays in it.
        """
        self._folder: str | None = None
        self._joined = False
        if address.startswith("ray://"):
            raise MotetError(
                f"engine.ray_address is {shown(address)}, Ray's protocol for clients outside the cluster; accepted: "
                f"HOST:PORT of the head, called on a machine of the cluster"
            )
        if not address:  # read when Ray is imported
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self.ray = import_ray()
        if not self.ray.is_initialized():
            self._join(address, workers)
        elif address and (where := self.ray.get_runtime_context().gcs_address) != address:
            raise MotetError(
                f"engine.ray_address is {shown(address)}, but this process is part of the cluster at {where}; "
                f"accepted: that address, or ray.shutdown() before"
            )

    @property
    def cpus(self) -> int:
        """How many CPUs the cluster has in all, at least 1."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def leave(self) -> None:
        """Leave the cluster if this object joined it, and end it if it was started here."""
        if self._joined:
            self.ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._joined, self._folder = False, None

    def _join(self, address: str, workers: int) -> None:
        where: dict[str, Any] = {"address": address}
        if address:
            _require_somebody(address)
        else:
            self._folder = _short_folder()
            where = {
                "address": "local",
                "num_cpus": workers or None,
                "include_dashboard": False,
                "_node_ip_address": LOOPBACK,
                "_temp_dir": self._folder,
            }
        try:
            with _signals_as_they_were():
                self.ray.init(log_to_driver=False, configure_logging=False, namespace="motet", **where)
        except Exception as error:  # many causes: nobody answers, another version, no memory
            with suppress(Exception):
                self.ray.shutdown()
            self.leave()
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if address:
                raise MotetError(
                    f"engine.ray_address is {shown(address)} ({reason}); accepted: HOST:PORT of the head of a running "
                    f"Ray cluster that this machine is part of, or none to start Ray here"
                ) from error
            raise MotetError(f"Ray cannot be started here ({reason}); accepted: engine.name=pool") from error
        self._joined = True


def _require_somebody(address: str) -> None:
    """Raise if nobody listens at HOST:PORT; Ray itself would try for minutes."""
    host, found, port = address.rpartition(":")
    if not found or not port.isdecimal():
        return  # such as "auto"; Ray says what is wrong with others
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
    except (OSError, OverflowError) as error:
        raise MotetError(
            f"engine.ray_address is {shown(address)}, where nobody answers ({error}); accepted: HOST:PORT of the head "
            f"of a running Ray cluster, or none to start Ray here"
        ) from None


@contextmanager
def _signals_as_they_were() -> Iterator[None]:
    """Take back the handlers of signals that Ray sets inside the block: a stopped run must say how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _short_folder() -> str:
    """Return a new folder that only this user can read, with a name that is short enough for Ray's sockets."""
    if len(tempfile.gettempdir()) + len("/motet-ray-12345678") <= LONGEST:
        return tempfile.mkdtemp(prefix="motet-ray-")
    return tempfile.mkdtemp(prefix="motet-ray-", dir="/tmp")
