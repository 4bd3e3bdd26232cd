"""What every ledger promises, asked of both kinds."""

import time
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pytest

from belated.api.types import Deadline
from belated.ledger import Ledger, open_ledger
from belated.ledger.base import PIECE, ExperimentExists, LedgerError, TooManyExperiments
from belated.ledger.events import ApiKey, DecisionRecord, Event, ExperimentRecord, Fate, Hears, Kind, Status
from support.ledger_helpers import MOST, append, decision, default, experiment, look, outcome, settings, together
from support.refusals import refused
from support.serving import KINDS

pytestmark = pytest.mark.parametrize("kind", KINDS)

ODD_IDS = ["'", '"', "\\", "%s", "?", "$1", "{}", "1e5", "007", "null", "--", ";", "~" * 128, "a", "A"]


def test_events_come_back_as_they_were_appended_whatever_came_together(ledger: Ledger) -> None:
    one, other = experiment(ledger, "one"), experiment(ledger, "other")
    written: list[Event] = []
    for size in (1, 2, 3, 255, 256, 257, 1, 700):
        begin = len(written) + 1
        events = [decision(n, n, at=10 * n, arm=n % 3, propensity=1 / n) for n in range(begin, begin + size)]
        append(ledger, one.number, events)
        written += events
    change = Event(len(written) + 1, int(Kind.PAUSE), 99_999)
    append(ledger, one.number, [change], Status.PAUSED)
    append(ledger, other.number, [decision(1, 1, "d1"), outcome(2, 1), default(3, 1)])
    assert ledger.events(one.number) == [*written, change]
    assert ledger.events(other.number) == [decision(1, 1, "d1"), outcome(2, 1), default(3, 1)]
    assert look(ledger, one.number).tail == [*written, change]
    assert look(ledger, one.number, len(written) - 1).tail == [written[-1], change]
    assert look(ledger, one.number, len(written) + 1).tail == []


def test_events_are_read_in_chunks(ledger: Ledger) -> None:
    record = experiment(ledger)
    assert list(ledger.all_events(record.number)) == []
    events = [decision(n, n) for n in range(1, PIECE + 201)]
    append(ledger, record.number, events)
    chunks = list(ledger.all_events(record.number))
    assert [len(chunk) for chunk in chunks] == [PIECE, 200]
    assert [event for chunk in chunks for event in chunk] == events
    assert ledger.events(record.number, 17, 3) == events[17:20]
    assert ledger.events(record.number, PIECE + 199) == events[-1:]
    assert ledger.events(record.number, PIECE + 200) == []
    assert [len(chunk) for chunk in ledger.all_events(record.number, 150)] == [PIECE, 50]


def test_a_turn_tells_what_is_known_of_decisions(ledger: Ledger) -> None:
    record, other = experiment(ledger), experiment(ledger, "other")
    rounds = range(1, len(ODD_IDS) + 1)
    append(ledger, record.number, [decision(n, n, id, n, n % 3, 1 / n) for n, id in zip(rounds, ODD_IDS, strict=True)])
    append(ledger, other.number, [decision(1, 1, "elsewhere")])
    n = len(ODD_IDS)
    late = outcome(n + 3, 2, 0.75)._replace(fate=int(Fate.LATE))
    append(ledger, record.number, [outcome(n + 1, 1, 0.5), default(n + 2, 2), late, default(n + 4, 3)])
    before = time.time() * 1e6
    opened = look(ledger, record.number, n, [*ODD_IDS, "nobody", "elsewhere", "a"])
    known = [DecisionRecord(k, k % 3, 1 / k, k, None, 0, False) for k in rounds]
    known[0] = known[0]._replace(loss=0.5, fate=Fate.USED)
    known[1] = known[1]._replace(loss=0.75, fate=Fate.LATE, defaulted=True)
    known[2] = known[2]._replace(defaulted=True)
    assert opened.known == dict(zip(ODD_IDS, known, strict=True))
    assert [event.number for event in opened.tail] == [n + 1, n + 2, n + 3, n + 4]
    assert (opened.status, opened.snapshot) == (Status.ACTIVE, 0)
    assert abs(opened.now - before) < 60e6
    assert look(ledger, other.number, 0, ["a", "elsewhere"]).known == {
        "elsewhere": DecisionRecord(1, 0, 0.5, 0, None, 0, False)
    }


def test_creating_again_is_creating_once(ledger: Ledger) -> None:
    assert (ledger.experiments(), ledger.find("one")) == ([], None)
    first, is_new = ledger.create(settings("one", 3, deadline=Deadline(0.1, 0.3)), 123, 2)
    assert is_new
    assert first == ExperimentRecord(
        first.number, settings("one", 3, deadline=Deadline(0.1, 0.3)), Status.ACTIVE, 123, 0, 0
    )
    assert ledger.create(settings("one", 3, deadline=Deadline(0.1, 0.3)), 456, 2) == (first, False)
    assert ledger.create(settings("one", 4, deadline=Deadline(0.1, 0.3)), 456, 2) == (first, False)
    for other in (settings("one"), settings("one", 3, "robust", Deadline(0.1, 0.3))):
        with refused(None, "'one'", error=ExperimentExists):
            ledger.create(other, 0, 2)
    second, is_new = ledger.create(settings("a second"), 5, 2)
    assert is_new
    with refused(None, 2, error=TooManyExperiments):
        ledger.create(settings("a third"), 0, 2)
    assert ledger.create(settings("one", 3, deadline=Deadline(0.1, 0.3)), 0, 2) == (first, False)
    assert ledger.experiments() == [first, second]
    assert [ledger.find(name) for name in ("one", "a second", "a third", "ONE")] == [first, second, None, None]
    append(ledger, second.number, [decision(1, 1), decision(2, 2), outcome(3, 1)], Status.ARCHIVED)
    assert ledger.find("a second") == second._replace(status=Status.ARCHIVED, events=3, rounds=2)
    assert look(ledger, second.number).status == Status.ARCHIVED


def test_many_who_create_at_once_create_what_is_allowed(store: str) -> None:
    with closing(open_ledger(store)) as one, closing(open_ledger(store)) as two:
        same: list[tuple[ExperimentRecord, bool]] = []
        made: list[str] = []

        def work(k: int) -> None:
            ledger = one if k % 2 else two
            same.append(ledger.create(settings("same", seed=k), k, MOST))
            with suppress(TooManyExperiments):
                made.append(ledger.create(settings(f"e{k}"), k, 4)[0].settings.name)

        together([partial(work, k) for k in range(6)])
        assert sorted(is_new for _, is_new in same) == [False] * 5 + [True]
        assert len({record.settings.seed for record, _ in same}) == 1
        assert len(made) == 3
        assert sorted(record.settings.name for record in one.experiments()) == sorted(["same", *made])
        assert len({record.number for record in one.experiments()}) == 4


def test_the_two_newest_snapshots_are_kept(ledger: Ledger) -> None:
    one, other = experiment(ledger, "one"), experiment(ledger, "other")
    states = {10: b"", 25: bytes(range(256)) * 300, 26: b"\x00\xff"}
    for position, state in states.items():
        ledger.keep(one.number, position, state)
    ledger.keep(other.number, 3, b"three")
    ledger.keep(one.number, 26, states[26])  # as another worker may do at the same time
    assert ledger.snapshots(one.number) == [(26, states[26]), (25, states[25])]
    assert ledger.snapshots(other.number) == [(3, b"three")]
    assert (look(ledger, one.number).snapshot, look(ledger, other.number).snapshot) == (26, 3)


def test_what_is_due_has_waited_and_has_no_outcome(ledger: Ledger) -> None:
    record = experiment(ledger)
    ats = [10, 10, 20, 30, 30, 40, 50]
    events = [decision(n, n, at=at, arm=n % 3, propensity=1 / n) for n, at in enumerate(ats, 1)]
    append(ledger, record.number, [*events, outcome(8, 3), default(9, 1), default(10, 6), outcome(11, 6)])

    def due(after: int, before: int, most: int = 100) -> tuple[list[int], int, bool, int | None]:
        with ledger.transaction() as transaction:
            found = transaction.due(record.number, after, before, hears=Hears.ARRIVAL, most=most)
        for id, known in found.decisions:
            n = known.round
            assert (id, known) == (f"d{n}", DecisionRecord(n, n % 3, 1 / n, ats[n - 1], None, 0, False))
        return [known.round for _, known in found.decisions], found.looked_at, found.more, found.next

    assert due(0, 9) == ([], 0, False, 10)
    assert due(0, 10) == ([2], 2, False, 20)
    assert due(0, 29) == ([2], 3, False, 30)
    assert due(2, 49) == ([4, 5], 6, False, 50)
    assert due(0, 50) == ([2, 4, 5, 7], 7, False, None)
    assert due(7, 50) == ([], 7, False, None)
    assert due(0, 50, 3) == ([2], 3, True, None)
    assert due(3, 50, 3) == ([4, 5], 6, True, None)
    assert due(6, 50, 3) == ([7], 7, False, None)
    assert due(3, 30, 3) == ([4, 5], 5, False, 40)


def test_where_outcomes_are_held_what_is_due_has_not_been_learned_from(ledger: Ledger) -> None:
    record = experiment(ledger)
    events = [decision(n, n, at=10 * n) for n in range(1, 7)]
    came = [outcome(7, 2, 0.5), outcome(8, 3), outcome(9, 3, kind=Kind.SETTLED), default(10, 4), outcome(11, 4)]
    append(ledger, record.number, [*events, *came])

    def due(before: int) -> list[tuple[int, float | None, int]]:
        with ledger.transaction() as transaction:
            found = transaction.due(record.number, 0, before, hears=Hears.DEADLINE, most=100)
        return [(known.round, known.loss, known.fate) for _, known in found.decisions]

    assert due(19) == [(1, None, 0)]
    assert due(59) == [(1, None, 0), (2, 0.5, Fate.HELD), (5, None, 0)]
    append(ledger, record.number, [outcome(12, 2, 0.5, kind=Kind.SETTLED)])
    assert due(59) == [(1, None, 0), (5, None, 0)]


def test_an_outcome_that_was_held_is_heard_of_once(ledger: Ledger) -> None:
    record = experiment(ledger)
    append(ledger, record.number, [decision(1, 1), outcome(2, 1), outcome(3, 1, kind=Kind.SETTLED)])
    with pytest.raises(LedgerError):
        append(ledger, record.number, [outcome(4, 1, kind=Kind.SETTLED)])
    assert len(ledger.events(record.number)) == 3


def test_keys_stay_as_they_were_added_until_they_are_revoked(ledger: Ledger) -> None:
    keys = [ApiKey(f"k{n}", f"näme {n}", "read", bytes([n, 0, 255]), 5 - n, None) for n in range(3)]
    for key in keys:
        ledger.add_key(key)
    keys = [key._replace(number=n + 1) for n, key in enumerate(keys)]
    assert ledger.all_keys() == keys[::-1]  # in the order of their making
    ledger.add_key(keys[1]._replace(role="admin", digest=b"other"))
    assert ledger.all_keys() == keys[::-1]
    assert ledger.revoke_key("k1", 77) is True
    assert ledger.revoke_key("nobody", 77) is False
    ledger.revoke_key("k1", 99)
    ledger.add_key(keys[1])
    assert ledger.all_keys() == [keys[2], keys[1]._replace(revoked=77), keys[0]]


def test_numbers_come_back_bit_for_bit(ledger: Ledger) -> None:
    rng = np.random.default_rng(11)
    one = int(np.float64(1.0).view(np.uint64))
    bits = np.concatenate([rng.integers(0, one, 800, endpoint=True, dtype=np.uint64), np.arange(4, dtype=np.uint64)])
    bits = np.concatenate([bits, np.uint64(one) - np.arange(4, dtype=np.uint64), rng.random(800).view(np.uint64)])
    numbers = bits.view(np.float64).tolist()
    n = len(numbers)
    record = experiment(ledger)
    decisions = [decision(k + 1, k + 1, propensity=number) for k, number in enumerate(numbers)]
    append(ledger, record.number, decisions)
    append(ledger, record.number, [outcome(n + k + 1, k + 1, number) for k, number in enumerate(numbers)])

    def same(found: list[float]) -> bool:
        return found != [] and np.array_equal(np.array(found).view(np.uint64), bits)

    events = ledger.events(record.number)
    assert same([event.propensity for event in events[:n]])
    assert same([event.loss for event in events[n:]])
    known = look(ledger, record.number, 2 * n, [event.id for event in decisions]).known
    assert same([known[event.id].propensity for event in decisions])
    assert same([known[event.id].loss or 0.0 for event in decisions])
    assert same([event.loss for event in look(ledger, record.number, n).tail])


def test_changes_of_status_are_listed(ledger: Ledger) -> None:
    record, other = experiment(ledger), experiment(ledger, "other")
    assert ledger.status_changes(record.number) == []
    kinds = {3: Kind.PAUSE, 4: Kind.RESUME, 5: Kind.ADD_ARM, 9: Kind.PAUSE, 10: Kind.ARCHIVE}
    changes = {number: Event(number, int(kind), 10 * number, key=number) for number, kind in kinds.items()}
    settled = outcome(7, 1, kind=Kind.SETTLED)
    events = [decision(1, 1), outcome(2, 1), *(changes[n] for n in (3, 4, 5)), decision(6, 2), settled]
    append(ledger, record.number, [*events, default(8, 2), changes[9], changes[10]], Status.ARCHIVED)
    append(ledger, other.number, [Event(1, int(Kind.PAUSE), 7)], Status.PAUSED)
    assert ledger.status_changes(record.number) == [changes[number] for number in (3, 4, 9, 10)]
    assert ledger.status_changes(other.number) == [Event(1, int(Kind.PAUSE), 7)]


def test_of_what_is_kept_of_settled_decisions_that_which_has_read_furthest_stays(ledger: Ledger) -> None:
    assert ledger.settled(1) is None
    ledger.keep_settled(1, 20, b"twenty\0")
    ledger.keep_settled(1, 10, b"ten")
    ledger.keep_settled(2, 5, b"other")
    assert ledger.settled(1) == b"twenty\0"
    assert ledger.settled(1, 19) == b"twenty\0"
    assert ledger.settled(1, 20) is None
    ledger.keep_settled(1, 20, b"again")
    assert ledger.settled(1) == b"again"
    ledger.keep_settled(1, 21, b"more")
    assert (ledger.settled(1), ledger.settled(2)) == (b"more", b"other")
