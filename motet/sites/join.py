"""The process of a site: sign on, take messages, answer them, and come back whatever happens to the others."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from motet.errors import MotetError
from motet.io.memory_limits import return_freed_memory
from motet.runs.run import one_thread
from motet.sites.at_site import AtSite, SiteFiles
from motet.sites.certificates import CA, read_certificate, read_private_key, refuse_expired, require_cryptography
from motet.sites.consent import Ask
from motet.sites.disk import SiteDisk
from motet.sites.flower.common import HEARTBEAT, Refused, Unreachable, require_flower
from motet.sites.flower.fleet import Arrived, Fleet
from motet.sites.wire import Parcel

POLL = 0.25
"""Seconds between two looks for messages."""
PATIENCE = 30.0
"""Seconds that a site is refused before it gives up: a process of it that was killed counts as there for a while."""
WAIT = 1.0


@dataclass(frozen=True)
class JoinRequest:
    """Everything that `motet join` is told."""

    address: str
    certs: Path
    name: str
    files: SiteFiles
    state: Path


def join(request: JoinRequest, ask: Ask, said: Callable[[str], None]) -> Path:
    """Take part in a run until it ends, and return the folder that has the site's model then."""
    require_cryptography()
    require_flower()
    key, ca = read_private_key(request.certs / f"{request.name}.key"), read_certificate(request.certs / CA)
    refuse_expired(ca, str(request.certs / CA))
    disk = SiteDisk(request.state).locked()
    try:
        with one_thread():
            site = AtSite(request.name, key, ca, disk, request.files, ask, request.address, said)
            _Connection(Fleet(request.address, request.certs / CA, key), site, said).serve()
    finally:
        disk.release()
    return request.state


class _Connection:
    """The line of a site, which is taken up again whenever it breaks."""

    def __init__(self, fleet: Fleet, site: AtSite, said: Callable[[str], None]):
        self.fleet, self.site, self.said = fleet, site, said
        self._unknown = threading.Event()  # the SuperLink does not count this site as there any more
        self._ended = threading.Event()
        self._silent_since: float | None = None

    def serve(self) -> None:
        """Answer messages until the run ended or the site does not consent."""
        beat = threading.Thread(target=self._stay_alive, daemon=True, name="motet-heartbeat")
        try:
            self._sign_on()
            beat.start()
            while not self.site.ended:
                self._one_step()
        finally:
            self._ended.set()
            if beat.ident is not None:
                beat.join()  # a thread that is in a call when the process ends makes it abort
            if self.site.disk.node is not None and not self.site.ended:
                self.fleet.sign_off(self.site.disk.node)  # after its last word a site stays on until that was heard
            self.fleet.close()

    def _one_step(self) -> None:
        try:
            if self._unknown.is_set():
                self._sign_on()
            arrived = self._newest()
            self._heard()
            if arrived is None:
                time.sleep(POLL)
                return
            self._answer(arrived)
        except Unreachable as error:  # a message may be lost with the line: who signs on anew is asked again
            self._not_heard(error)
            self._unknown.set()
        except Refused as error:
            self.said(f"{error}")
            self._unknown.set()
            time.sleep(WAIT)

    def _newest(self) -> Arrived | None:
        """Return the last message that is there: a coordinator that asked again does not wait for the first answer."""
        arrived = self.fleet.pull()
        while arrived is not None:
            later = self.fleet.pull()
            if later is None:
                break
            if not self.site.is_superseded(arrived.parcel, later.parcel):
                self._answer(arrived)
            arrived = later
        return arrived

    def _answer(self, arrived: Arrived) -> None:
        return_freed_memory()  # in which the message came
        reply = self.site.answer(arrived.parcel)
        if reply is not None:
            self._push(arrived, reply)
        return_freed_memory()

    def _push(self, arrived: Arrived, parcel: Parcel) -> None:
        """Send a reply; while nobody answers, try again: the work is done, and its state is on disk."""
        try:
            reply = self.fleet.reply(arrived, parcel)
            while True:
                try:
                    self.fleet.push(arrived, reply)
                    return
                except Unreachable as error:
                    self._not_heard(error)
        except Refused as error:  # the run of before is over: the coordinator came back and asks again
            self.said(f"a reply was not taken: {error}")

    def _sign_on(self) -> None:
        """Sign on; while nobody answers, wait; if this site is refused for long, raise the `Refused`."""
        refused_since: float | None = None
        while True:
            try:
                if self.site.disk.node is not None:
                    self.fleet.sign_off(self.site.disk.node)  # of a process that was killed, or of this one before
                self.site.disk.node = self.fleet.sign_on()
                self._unknown.clear()
                self._heard()
                self.said(f"{self.site.name} is connected with {self.fleet.address}")
                return
            except Unreachable as error:
                self._not_heard(error)
            except Refused as error:
                if "certificate" in str(error):
                    raise
                refused_since = refused_since or time.monotonic()
                if time.monotonic() - refused_since > PATIENCE:
                    raise Refused(
                        f"{self.fleet.address} does not let {self.site.name!r} in ({error}); accepted: the key whose "
                        f"{self.site.name}.pub the coordinator has for one of its --sites, in one process at a time"
                    ) from None
                time.sleep(WAIT)

    def _stay_alive(self) -> None:
        while not self._ended.wait(HEARTBEAT / 3):
            with suppress(MotetError):
                if not self.fleet.heartbeat():
                    self._unknown.set()

    def _heard(self) -> None:
        if self._silent_since is not None:
            self.said(f"{self.fleet.address} answers again")
        self._silent_since = None

    def _not_heard(self, error: MotetError) -> None:
        if self._silent_since is None:
            self._silent_since = time.monotonic()
            self.said(f"{error}; waiting for it")
        time.sleep(WAIT)
