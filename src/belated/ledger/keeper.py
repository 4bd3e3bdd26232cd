"""Snapshots are written by a thread of their own: no request waits for one, and none fails with one."""

import logging
import time
from threading import Condition, Thread
from typing import NamedTuple

from belated.ledger.base import Ledger, LedgerUnavailable

logger = logging.getLogger("belated.ledger")

AGAIN_SECONDS = 5.0
"""After a failure, how long to wait before trying again."""


class Snapshot(NamedTuple):
    """A snapshot to be kept."""

    name: str
    number: int
    position: int
    state: bytes

    @property
    def what(self) -> str:
        return f"the snapshot of experiment {self.name} after event {self.position}"

    def write(self, ledger: Ledger) -> None:
        ledger.keep(self.number, self.position, self.state)


class SettledSnapshot(Snapshot):
    """What the settled decisions of an experiment amount to, as far as they were read, to be kept."""

    @property
    def what(self) -> str:
        return f"the settled decisions of experiment {self.name} up to event {self.position}"

    def write(self, ledger: Ledger) -> None:
        ledger.keep_settled(self.number, self.position, self.state)


class Keeper:
    """Writes snapshots, the newest of each kind and experiment, one after the other. A failure is logged once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: dict[tuple[type[Snapshot], str], Snapshot] = {}
        self._changed = Condition()
        self._closing = False
        self._failing = False
        self._thread = Thread(target=self._work, name="keeper", daemon=True)
        self._thread.start()

    def keep(self, snapshot: Snapshot) -> None:
        """Have a snapshot written soon."""
        with self._changed:
            self._waiting[type(snapshot), snapshot.name] = snapshot
            self._changed.notify()

    def close(self) -> None:
        """Write what is waiting, each tried once; return when that is done."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                snapshot = self._waiting.pop(next(iter(self._waiting)))
            if keep(self._ledger, snapshot, self._failing):
                if self._failing:
                    logger.warning("keeping snapshots in %s works again", self._ledger.store)
                self._failing = False
                continue
            self._failing = True
            give_up = time.monotonic() + AGAIN_SECONDS
            with self._changed:
                if self._closing:
                    continue
                self._waiting.setdefault((type(snapshot), snapshot.name), snapshot)
                while not self._closing and (left := give_up - time.monotonic()) > 0:
                    self._changed.wait(left)


def keep(ledger: Ledger, snapshot: Snapshot, quietly: bool = False) -> bool:
    """Return whether a snapshot could be written; the log says why not, unless `quietly`."""
    try:
        snapshot.write(ledger)
    except LedgerUnavailable as error:
        if not quietly:
            logger.error("keeping %s failed: %s; decisions go on, a restart takes longer", snapshot.what, error)
        return False
    except Exception:
        if not quietly:
            logger.exception("keeping %s failed", snapshot.what)
        return False
    return True
