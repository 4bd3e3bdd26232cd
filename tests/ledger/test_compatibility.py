"""A ledger of an earlier version: opened, brought up to date, verified, gone on with.

tests/data/ledger-v1.sqlite was written by belated 0.1.0: `button`, with deadlines and defaults, and `prices`, paused
twice and left so, each with two snapshots. tests/data/ledger-v1.json holds the states as that version showed them.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated.ledger import open_ledger
from belated.ledger.commands import Change, Decide, KeepSnapshot, Refused
from belated.ledger.events import ApiKey, Event, Fate, Kind, Status
from belated.ledger.migrations import MIGRATIONS
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.sqlite import SqliteLedger
from belated.ledger.verify import verify
from support.ledger_helpers import observe
from support.protocol_model import Controls, made, read, told

DATA = Path(__file__).parents[1] / "data"
STATES: dict[str, dict[str, Any]] = json.loads((DATA / "ledger-v1.json").read_text())
TOLERANCE = 1e-9  # other processors differ in the last bits


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a copy of the old ledger."""
    return Path(shutil.copy(DATA / "ledger-v1.sqlite", tmp_path / "ledger.db"))


@pytest.fixture
def ledger(file: Path) -> Iterator[SqlLedger]:
    with closing(open_ledger(f"sqlite:///{file}")) as ledger:
        assert isinstance(ledger, SqlLedger)
        yield ledger


def assert_sound(ledger: SqlLedger, name: str, compared: int) -> None:
    """Replay it: nothing is wrong but the last bits of propensities, on another processor."""
    record = ledger.find(name)
    assert record is not None
    verdict = verify(ledger, record, tolerance=TOLERANCE)
    assert verdict.faults == []
    assert (verdict.events, verdict.rounds, verdict.compared) == (record.events, record.rounds, compared)


def test_the_old_ledger_is_brought_up_to_date_once(file: Path) -> None:
    """Old snapshots are dropped, since the states in them are of another form; nothing else changes."""
    with closing(SqliteLedger(str(file))) as before:
        assert [row[0] for row in before._read("SELECT number FROM migrations")] == [1]
        assert [len(before.snapshots(number)) for number in (1, 2)] == [2, 2]
        of_then = f"SELECT {', '.join(Event._fields[:10])} FROM events WHERE experiment = ? ORDER BY number"
        events = [[Event(*row) for row in before._read(of_then, (number,))] for number in (1, 2)]
        assert before.migrate() == [migration.name for migration in MIGRATIONS[1:]]
        assert before.migrate() == []
        assert [before.snapshots(number) for number in (1, 2)] == [[], []]
        assert [before.events(number) for number in (1, 2)] == events
        assert before._read("SELECT key, snapshot FROM experiments ORDER BY key") == [(1, 0), (2, 0)]
        assert before.all_keys() == [ApiKey("k1", "ci", "decide", bytes(range(32)), 1_700_000_000_000_000, None, 1)]
    kinds = [{Kind(event.kind) for event in each} for each in events]
    assert Kind.DEFAULT in kinds[0]
    assert {Kind.PAUSE, Kind.RESUME} <= kinds[1]


@pytest.mark.parametrize("name", STATES)
def test_old_events_amount_to_the_states_of_then(ledger: SqlLedger, name: str) -> None:
    assert_sound(ledger, name, compared=0)
    expected = STATES[name]
    Controls(ledger).now = expected["at"]
    view = read(CommandProcessor(ledger), name)
    state, bandit = view.state, view.state.bandit
    assert view.status.name == expected["status"]
    assert (state.position, bandit.rounds, state.at) == (expected["events"], expected["rounds"], expected["at"])
    assert (bandit.outstanding, bandit.skipped) == (expected["outstanding"], expected["skipped"])
    assert bandit.cumulative_outstanding == expected["cumulative_outstanding"]
    for field in ("decisions", "outcomes", "losses", "fates", "defaults"):
        assert getattr(state, field) == expected[field], field
    assert [state.delays_rounds.quantile(share) for share in (0.5, 0.9)] == expected["delays_rounds"]
    assert [state.delays_seconds.quantile(share) for share in (0.5, 0.9)] == expected["delays_seconds"]
    assert state.histogram.counts == expected["histogram"]
    np.testing.assert_allclose(bandit.distribution, expected["distribution"], rtol=TOLERANCE)
    np.testing.assert_allclose(bandit.loss_estimates, expected["loss_estimates"], rtol=TOLERANCE)
    assert bandit.patience == pytest.approx(expected["patience"], rel=TOLERANCE)
    assert bandit.drift == pytest.approx(expected["drift"], rel=TOLERANCE)


def test_an_old_ledger_goes_on(ledger: SqlLedger) -> None:
    """New decisions and outcomes, old decisions whose outcomes come now, snapshots, a restart."""
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    controls.now = max(expected["at"] for expected in STATES.values())
    (refused,) = processor.run([Decide("prices", ["new"])])
    assert isinstance(refused, Refused)
    assert refused.code == "paused"
    ids = {name: [f"{name}-{k}" for k in range(40)] for name in STATES}
    processor.run([Change("prices", Status.ACTIVE)])
    for name, expected in STATES.items():
        (decisions,) = processor.run([Decide(name, ids[name])])
        assert [each.round for each in made(decisions)] == [expected["rounds"] + k for k in range(1, 41)]
        old = expected["waiting"]
        receipts = told(processor.run([observe(name, [(id, 0.0) for id in [*old, *ids[name]]])])[0])
        assert {word for word, _ in receipts} <= {"used", "skipped"}
        assert receipts[-1] == ("used", None)
        (repeated,) = processor.run([observe(name, [(old[0], 0.0), (old[0], 1.0)])])
        assert [word for word, _ in told(repeated)] == ["repeated", "conflict"]
        processor.run([KeepSnapshot(name)])
        assert_sound(ledger, name, compared=1)
        restarted = CommandProcessor(ledger)
        assert read(restarted, name).state.digest() == read(processor, name).state.digest()
        assert read(restarted, name).state.bandit.rounds == expected["rounds"] + 40


def test_a_deadline_of_an_old_decision_still_passes(ledger: SqlLedger) -> None:
    controls, expected = Controls(ledger), STATES["button"]
    controls.now = expected["at"] + 61_000_000
    state = read(CommandProcessor(ledger), "button").state
    late = expected["fates"][Fate.LATE]
    ended = sum(expected["fates"]) + expected["defaults"] - late
    assert state.defaults == expected["defaults"] + expected["rounds"] - ended > expected["defaults"]
    assert_sound(ledger, "button", compared=0)
