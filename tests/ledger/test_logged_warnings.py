"""What a worker logs of an experiment whose learner cannot be right: each kind of warning once, looked for rarely."""

import logging

import pytest

from belated.ledger.base import LedgerUnavailable
from belated.ledger.commands import Decide, Read
from belated.ledger.events import ExperimentSettings
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from belated.live.recorded import RecordedBandit
from support.ledger_helpers import observe
from support.protocol_model import START, read


def create(ledger: SqlLedger, name: str, learner: str) -> None:
    ledger.create(ExperimentSettings(name, ["a", "b"], learner, {}, 5, "wait"), START, 100)


def wins_only(processor: CommandProcessor, name: str, first: int, last: int) -> None:
    """Decide ten at a time, and report the outcome of every other decision."""
    for begin in range(first, last, 10):
        ids = [f"d-{k}" for k in range(begin, begin + 10)]
        processor.run([Decide(name, ids), observe(name, [(id, 0.0) for id in ids[::2]])])


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {record.levelname for record in caplog.records} <= {"WARNING"}
    return [record.getMessage() for record in caplog.records]


def test_the_log_has_it_once_in_each_process(ledger: SqlLedger, caplog: pytest.LogCaptureFixture) -> None:
    """After 350 decisions there are 525 events: 512 is a power of two. Nobody has read the experiment."""
    create(ledger, "shop", "ucb")
    processor = CommandProcessor(ledger)
    with caplog.at_level(logging.INFO):
        wins_only(processor, "shop", 0, 340)
        assert lines(caplog) == []
        wins_only(processor, "shop", 340, 350)
        (line,) = lines(caplog)
        assert [word for word in ("shop", "125", "250", "100") if word not in line] == []
        wins_only(processor, "shop", 350, 1000)
        assert len(read(processor, "shop").state.bandit.warnings) == 1
        assert lines(caplog) == [line]
        assert processor.evict(0.0) == ["shop"]
        read(processor, "shop")
        assert lines(caplog) == [line]
        CommandProcessor(ledger).run([Decide("shop", ["new"])])
        assert len(lines(caplog)) == 2
    (record,) = ledger.experiments()
    assert verify(ledger, record).faults == []


def test_whoever_reads_an_experiment_finds_it_in_the_log(ledger: SqlLedger, caplog: pytest.LogCaptureFixture) -> None:
    create(ledger, "shop", "ucb")
    processor = CommandProcessor(ledger)
    with caplog.at_level(logging.INFO):
        wins_only(processor, "shop", 0, 300)
        assert lines(caplog) == []
        view = read(processor, "shop")
        assert [record.args for record in caplog.records] == [("shop", view.state.bandit.warnings[0])]


def test_experiments_and_kinds_are_told_apart(ledger: SqlLedger, caplog: pytest.LogCaptureFixture) -> None:
    used = {"shop": "ucb", "bank": "ucb", "tides": "robust", "well": "balanced", "default": "guarded"}
    for name, learner in used.items():
        create(ledger, name, learner)
    processor = CommandProcessor(ledger)
    with caplog.at_level(logging.INFO):
        for name in ("shop", "bank", "well", "default"):
            wins_only(processor, name, 0, 400)
        ids = [f"d-{k}" for k in range(300)]
        processor.run([Decide("tides", ids)])
        processor.run([observe("tides", [(id, 0.0) for id in ids[:250]])])
    assert [str(record.args).split("'")[1] for record in caplog.records] == ["shop", "bank", "tides"]
    assert [word for word in ("250", "'robust'") if word not in lines(caplog)[-1]] == []


def test_it_is_looked_for_at_powers_of_two_and_where_it_is_read(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def look(bandit: RecordedBandit) -> dict[str, str]:
        looks.append(bandit.rounds)
        return {}

    monkeypatch.setattr(RecordedBandit, "warnings_by_kind", property(look))
    create(ledger, "shop", "ucb")
    processor = CommandProcessor(ledger)
    for k in range(600):
        processor.run([Decide("shop", [f"d-{k}"])])
    assert looks == [1, 256, 512]
    processor.run([Decide("shop", ["more"]), Read("shop")])
    assert looks[3:] == [601]


def test_what_was_not_committed_is_not_logged(
    ledger: SqlLedger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(ledger, "shop", "ucb")
    processor = CommandProcessor(ledger)
    with caplog.at_level(logging.INFO):
        wins_only(processor, "shop", 0, 340)
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "run", _fail)
            with pytest.raises(LedgerUnavailable):
                wins_only(processor, "shop", 340, 350)
        assert lines(caplog) == []
        wins_only(processor, "shop", 340, 350)
        assert len(lines(caplog)) == 1


def _fail(*arguments: object) -> None:
    raise LedgerUnavailable("the disk is full")
