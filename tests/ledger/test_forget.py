"""Erasing ids: which, what stays, and what is left of them in the files."""

import logging
import random
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from belated.api.types import Deadline, OutcomeReceipt
from belated.ledger import forget as module
from belated.ledger import open_ledger
from belated.ledger.commands import ApplyDeadlines, Decide
from belated.ledger.events import SECOND, Event, ExperimentRecord
from belated.ledger.forget import Ids, Matching, Older, Which, count, forget, matcher
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from support.ledger_helpers import observe, together
from support.protocol_model import Controls, new, read
from support.serving import KINDS

DAY = 86400
USERS = 40


@dataclass
class Kept:
    """An experiment with two decisions of each user, made a day apart; half of them have an outcome."""

    ledger: SqlLedger
    store: str
    processor: CommandProcessor
    controls: Controls

    @property
    def record(self) -> ExperimentRecord:
        record = self.ledger.find("one")
        assert record is not None
        return record

    @property
    def events(self) -> list[Event]:
        return self.ledger.events(self.record.number)

    def check(self) -> None:
        """Everything but ids is sound, and what a worker knows is what its events make."""
        state = read(self.processor, "one").state
        verdict = verify(self.ledger, self.record, (state.position, state.digest()))
        assert (verdict.faults, verdict.compared > 0) == ([], True)

    def named(self) -> set[str]:
        """The ids that are left; a decision and its outcomes have the same, or none."""
        by_round: dict[int, set[str | None]] = {}
        for event in self.events:
            if event.round:
                by_round.setdefault(event.round, set()).add(event.id)
        assert {len(ids) for ids in by_round.values()} == {1}
        return {id for ids in by_round.values() for id in ids if id is not None}


@pytest.fixture
def kept(store: str, ledger: SqlLedger) -> Kept:
    new(ledger, missing=Deadline(100 * DAY, 1.0))
    controls = Controls(ledger)
    processor = CommandProcessor(ledger)
    controls.now = int((time.time() - 2.5 * DAY) * SECOND)
    for visit in range(2):
        processor.run([Decide("one", [f"user-{k}-visit-{visit}" for k in range(USERS)])])
        processor.run([observe("one", [(f"user-{k}-visit-{visit}", 0.5) for k in range(0, USERS, 2)])])
        controls.now += DAY * SECOND
    return Kept(ledger, store, processor, controls)


def every(visit: int) -> set[str]:
    return {f"user-{k}-visit-{visit}" for k in range(USERS)}


TWO = {"user-3-visit-0", "user-4-visit-1"}


@pytest.mark.parametrize(
    ("kind", "which", "gone"),
    [
        ("sqlite", Ids(("user-3-visit-0", "user-4-visit-1", "nobody", "user-3-visit-0")), TWO),
        ("postgresql", Ids(("user-3-visit-0", "user-4-visit-1", "nobody", "user-3-visit-0")), TWO),
        ("sqlite", Matching("user-1-*"), {"user-1-visit-0", "user-1-visit-1"}),
        ("sqlite", Matching("*-visit-1"), every(1)),
        ("sqlite", Matching("user-1"), set()),
        ("sqlite", Matching("user.1-*"), set()),
        ("sqlite", Older(2 * DAY), every(0)),
        ("postgresql", Older(2 * DAY), every(0)),
        ("sqlite", Older(1 * DAY), every(0) | every(1)),
        ("sqlite", Older(3 * DAY), set()),
    ],
)
def test_ids_go_and_everything_else_stays(
    kept: Kept, which: Which, gone: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = kept.events
    assert count(kept.ledger, kept.record, which) == len(gone)
    assert kept.events == before
    assert kept.ledger.erasures() == []
    begun = int(time.time() * SECOND)
    with caplog.at_level(logging.INFO, "belated.ledger"):
        assert forget(kept.ledger, kept.record, which) == len(gone)
    assert kept.events == [each._replace(id=None) if each.id in gone else each for each in before]
    assert kept.named() == (every(0) | every(1)) - gone
    kept.check()
    assert forget(kept.ledger, kept.record, which) == 0
    if not gone:
        assert (kept.ledger.erasures(), caplog.records) == ([], [])
        return
    (erasure,) = kept.ledger.erasures()
    assert begun <= erasure.at <= time.time() * SECOND
    assert (erasure.experiment, erasure.ids, erasure.what) == (kept.record.number, len(gone), which.what)
    assert [(each.name, each.levelname, each.args) for each in caplog.records] == [
        ("belated.ledger", "INFO", ("one", len(gone), which.what))
    ]
    assert not any(id in erasure.what for id in gone)


def test_an_outcome_of_an_erased_id_is_unknown_and_the_id_can_be_used_again(kept: Kept) -> None:
    forget(kept.ledger, kept.record, Ids(("user-1-visit-0",)))
    (receipts,) = kept.processor.run([observe("one", [("user-1-visit-0", 0.5)])])
    assert isinstance(receipts, list)
    assert isinstance(receipts[0], OutcomeReceipt)
    assert receipts[0].receipt == "unknown"
    (made,) = kept.processor.run([Decide("one", ["user-1-visit-0"])])
    assert isinstance(made, list)
    assert made[0].round == 2 * USERS + 1  # type: ignore[union-attr]
    kept.check()
    assert forget(kept.ledger, kept.record, Ids(("user-1-visit-0",))) == 1


@pytest.mark.parametrize("learn", ["arrival", "deadline"])
def test_what_is_outstanding_settles_without_its_id(learn: str, store: str) -> None:
    """By a worker that has met the experiment, and by one that begins with it."""
    with closing(open_ledger(store)) as ledger:
        assert isinstance(ledger, SqlLedger)
        new(ledger, missing=Deadline(10.0, 1.0, learn))  # type: ignore[arg-type]
        controls = Controls(ledger)
        controls.now = 1000 * SECOND
        first, second = CommandProcessor(ledger), CommandProcessor(ledger)
        record = ledger.find("one")
        assert record is not None
        for worker, ids in ((first, ["a", "b", "c"]), (second, ["d", "e", "f"])):
            first.run([Decide("one", ids)])
            first.run([observe("one", [(ids[0], 0.25)])])
            assert forget(ledger, record, Ids((ids[0], ids[1]))) == 2
            controls.now += 11 * SECOND
            worker.run([ApplyDeadlines("one")])
        events = ledger.events(record.number)
        settled = [(each.kind, each.round, each.id) for each in events if each.kind in (3, 7)]
        if learn == "arrival":
            assert settled == [(3, 2, None), (3, 3, "c"), (3, 5, None), (3, 6, "f")]
        else:
            assert settled == [(7, 1, None), (3, 2, None), (3, 3, "c"), (7, 4, None), (3, 5, None), (3, 6, "f")]
        assert forget(ledger, record, Matching("*")) == 2  # c and f, in what was settled too
        assert {each.id for each in ledger.events(record.number)} == {None}
        first.run([Decide("one", ["g"]), observe("one", [("g", 0.5)])])
        controls.now += 11 * SECOND
        first.run([ApplyDeadlines("one")])
        assert forget(ledger, record, Ids(("g",))) == 1
        assert {each.id for each in ledger.events(record.number)} == {None}
        for worker in (first, second):
            state = read(worker, "one").state
            now = ledger.find("one")
            assert now is not None
            assert verify(ledger, now, (state.position, state.digest())).faults == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_age_is_looked_for_after_the_last_one(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the beginning every time: ledgers are long."""
    assert forget(kept.ledger, kept.record, Ids(("user-5-visit-0",))) == 1
    assert forget(kept.ledger, kept.record, Older(2 * DAY)) == USERS - 1
    looked: list[int] = []
    original = kept.ledger.all_events

    def all_events(experiment: int, after: int = 0) -> Iterator[list[Event]]:
        looked.append(after)
        return original(experiment, after)

    monkeypatch.setattr(kept.ledger, "all_events", all_events)
    assert forget(kept.ledger, kept.record, Older(3 * DAY)) == 0
    assert looked == []  # one event tells
    assert forget(kept.ledger, kept.record, Older(2 * DAY)) == 0
    assert forget(kept.ledger, kept.record, Older(1 * DAY)) == USERS
    assert looked == [USERS] * 2  # the number of the last decision that lost its id
    assert kept.named() == set()


def test_it_can_be_cut_short_and_gone_on_with(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 16)
    asked = iter([False, False, True])
    assert forget(kept.ledger, kept.record, Older(1 * DAY), lambda: next(asked)) == 32
    kept.check()
    assert len(kept.named()) == 2 * USERS - 32
    (erasure,) = kept.ledger.erasures()
    assert (erasure.ids, erasure.through) == (32, 32)
    assert forget(kept.ledger, kept.record, Older(1 * DAY)) == 2 * USERS - 32
    assert (kept.named(), len(kept.ledger.erasures())) == (set(), 2)


@pytest.mark.parametrize("kind", KINDS)
def test_two_who_erase_the_same_erase_it_once_while_others_decide(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 4)
    done: list[int] = []
    with closing(open_ledger(kept.store)) as other, closing(open_ledger(kept.store)) as third:
        worker = CommandProcessor(third)

        def decide() -> None:
            for k in range(15):
                worker.run([Decide("one", [f"new-{k}"])])
                worker.run([observe("one", [(f"new-{k}", 0.5), (f"user-{k}-visit-1", 0.5)])])

        works = [partial(forget, each, kept.record, Matching("user-*")) for each in (kept.ledger, other)]
        together([decide, *(partial(lambda work: done.append(work()), each) for each in works)])
    assert sum(done) == 2 * USERS
    assert sum(each.ids for each in kept.ledger.erasures()) == 2 * USERS
    assert kept.named() == {f"new-{k}" for k in range(15)}
    kept.check()


def test_nothing_of_an_erased_id_is_left_in_the_files(tmp_path: Path) -> None:
    """Neither in the table, nor in the index, nor in the log, also while another connection is open."""
    path = tmp_path / "ledger.db"
    with closing(open_ledger(f"sqlite:///{path}")) as ledger, closing(open_ledger(f"sqlite:///{path}")) as other:
        new(ledger)  # type: ignore[arg-type]
        processor = CommandProcessor(ledger)
        for k in range(20):
            ids = [f"user-{(k * 7919 + n * 104729) % 1000003:07d}-secret" for n in range(50)]
            processor.run([Decide("one", ids), observe("one", [(id, 0.5) for id in ids[::2]])])
        processor.run([Decide("one", ["somebody-else"])])
        assert other.find("one") is not None
        record = ledger.find("one")
        assert record is not None
        assert b"-secret" in bytes_of(path)
        assert forget(ledger, record, Matching("*-secret")) == 1000
        assert ledger.scrub()
        assert path.with_name("ledger.db-wal").stat().st_size == 0
        assert bytes_of(path).count(b"-secret") < 20  # of 2,500: copies in what was free before
        assert ledger.scrub(rewrite=True)
        found = bytes_of(path)
    assert b"somebody-else" in found
    assert b"-secret" not in found


def bytes_of(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def test_verify_finds_an_outcome_whose_decision_alone_was_erased(ledger: SqlLedger) -> None:
    """The other way round may be: an id was erased between two readings."""
    new(ledger)
    CommandProcessor(ledger).run([Decide("one", ["a", "b"]), observe("one", [("a", 0.5), ("b", 0.5)])])
    record = ledger.find("one")
    assert record is not None
    for number, faults in ((3, 0), (2, 1)):
        with ledger.committing() as connection:
            ledger.run(connection, "UPDATE events SET id = NULL WHERE number = ?", (number,))
        assert len(verify(ledger, record).faults) == faults


def test_a_pattern_means_what_it_says() -> None:
    """Compared with the plain reading of stars, on 2,000 random patterns and ids."""
    chance = random.Random(1)
    for _ in range(2_000):
        pattern = "".join(chance.choices("ab*", k=chance.randrange(8)))
        id = "".join(chance.choices("ab", k=chance.randrange(8)))
        plain = re.fullmatch(".*".join(pattern.split("*")), id)
        assert bool(matcher(pattern)(id)) == bool(plain), (pattern, id)


def test_no_pattern_takes_long() -> None:
    """Plainly read, this one takes longer than the sun will shine."""
    assert not matcher("*a" * 60 + "*b")("a" * 500)
    assert matcher("*a" * 60 + "*b")("a" * 500 + "b")
