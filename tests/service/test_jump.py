"""A service on a machine whose clock is set while it runs: no default is taken too soon, and none too late."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from belated.api.types import Deadline
from belated.client import Client
from belated.ledger import open_ledger
from belated.ledger.events import SECOND, Event, Kind
from belated.ledger.verify import verify
from support.faults import HEADERS
from support.serving import Server
from support.waiting import until

QUICK = {"belated.service.readiness.IDLE_SECONDS": 0.5}


class Shifted:
    """A server, and the clock of its machine."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(f"sqlite:///{folder / 'ledger.db'}", folder / "log", constants=QUICK)

    def set(self, seconds: float) -> None:
        """Set the clock of the machine off by so much."""
        self.server.set_clock(seconds)

    def warnings(self) -> list[str]:
        answer = httpx.get(f"{self.server.url}/readyz")
        assert answer.status_code == 200
        warnings: list[str] = answer.json()["warnings"]
        return warnings

    def offset(self) -> float:
        text = httpx.get(f"{self.server.url}/metrics", headers=HEADERS).text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return next(sample.value for sample in samples if sample.name == "belated_clock_offset_seconds")

    def events(self) -> list[Event]:
        with closing(open_ledger(self.server.store)) as ledger:
            return ledger.events(1)

    def verdict(self) -> Any:
        with closing(open_ledger(self.server.store)) as ledger:
            record = ledger.find("one")
            assert record is not None
            return verify(ledger, record)

    def defaults(self) -> list[str]:
        return [event.id for event in self.events() if event.kind == Kind.DEFAULT]


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[Shifted]:
    shifted = Shifted(tmp_path)
    with shifted.server:
        yield shifted


@pytest.fixture
def client(shifted: Shifted) -> Iterator[Client]:
    with shifted.server.client() as client:
        yield client


@pytest.mark.parametrize("off", [3600.0, -3600.0])
def test_a_clock_that_jumps_for_a_moment_changes_nothing_and_is_said(
    shifted: Shifted, client: Client, off: float
) -> None:
    client.create("one", ["a", "b"], seed=1, missing=Deadline(600.0, 1.0))
    client.create("short", ["a", "b"], seed=1, missing=Deadline(0.01, 1.0))
    client.decide("one", "first")
    begun = shifted.events()[0].at
    assert shifted.warnings() == []
    assert shifted.offset() == 0.0
    shifted.set(off)
    client.decide("one", "meanwhile")
    (warning,) = until(shifted.warnings)
    assert ("ahead" in warning) == (off > 0)
    until(lambda: abs(shifted.offset() - off) < 600)
    client.decide("short", "due")  # deadlines pass as ever
    until(lambda: client.experiment("short").outcomes.defaults == 1)
    shifted.set(0)
    client.decide("one", "last")
    until(lambda: not shifted.warnings())
    until(lambda: shifted.offset() == 0.0)
    events = shifted.events()
    assert [(event.kind, event.id) for event in events] == [(1, "first"), (1, "meanwhile"), (1, "last")]
    assert begun <= events[0].at <= events[1].at <= events[2].at <= begun + 1800 * SECOND
    assert shifted.server.log.read_text().count(" WARNING ") == 2  # it has jumped, and is back
    assert (shifted.verdict().faults, shifted.verdict().notes) == ([], [])


def test_a_clock_that_is_ahead_when_the_service_starts_is_believed_and_stops_no_deadline_afterwards(
    shifted: Shifted, client: Client
) -> None:
    """It has nothing to compare it with. When the clock is right again, the service is restarted, too."""
    client.create("one", ["a", "b"], seed=1, missing=Deadline(900.0, 1.0))
    shifted.server.terminate()
    shifted.set(3600)
    shifted.server.start()
    client.decide("one", "ahead")
    shifted.server.terminate()
    shifted.set(0)
    shifted.server.start()
    client.decide("one", "right")
    shifted.server.pass_time(900)
    until(lambda: shifted.defaults() == ["ahead", "right"])
    ahead, right, *defaults = shifted.events()
    assert ahead.at - right.at > 3000 * SECOND
    assert [event.waited >= 900 * SECOND for event in defaults] == [False, True]
    assert all(event.waited >= 0 for event in defaults)
    verdict = shifted.verdict()
    assert verdict.faults == []
    assert len(verdict.notes) == 1
