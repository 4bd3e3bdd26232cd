"""The state of an experiment: made or applied, kept or read anew, the same bit for bit. How long outcomes took."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from belated import SnapshotError, learners
from belated.ledger.base import LedgerError
from belated.ledger.commands import ApplyDeadlines, Decide, KeepSnapshot
from belated.ledger.delay_histogram import BOUNDS, Histogram, Sizes, bin_of, middle_of
from belated.ledger.events import SECOND, DecisionRecord, Event, ExperimentSettings, Fate, Kind, Status
from belated.ledger.processor import CommandProcessor, load
from belated.ledger.sql import SqlLedger
from belated.ledger.state import ExperimentState
from support.ledger_helpers import observe, record_of, settings, source_of
from support.play_live import TOLD, VARIANTS
from support.protocol_model import read
from support.refusals import refused
from support.sampling import sampled

SPECS = [
    words
    for words in (*learners.catalogue, *VARIANTS, "robust:delay_constant=0.01", "balanced:kappa=1")
    if "delay" not in learners.find(words.partition(":")[0]).needs
]
"""All that can be learned with by the service."""
FLOORED = [f"{words}, floor" for words in SPECS if ":" not in words]
"""The same with a floor under the shares of arms."""


def wanted(words: str) -> ExperimentSettings:
    floor = 0.1 if words.endswith(", floor") else None
    words = words.removesuffix(", floor")
    told: dict[str, float | str] = {**TOLD.get(words.partition(":")[0], {})}
    return ExperimentSettings("one", ["blue", 7, "red"], words, told, 5, "wait", floor)


class Maker:
    """Makes events as they may come; peeks at the state, or goes on from a snapshot of it, when told to."""

    def __init__(self, words: str, seed: int, peeks: float = 0.0, restart: int = -1) -> None:
        self.state = ExperimentState(wanted(words))
        self.events: list[Event] = []
        self.open: list[tuple[str, DecisionRecord]] = []
        self.late: list[tuple[str, DecisionRecord]] = []
        rng, peeking = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        while len(self.events) < 400:
            self.step(rng)
            if peeking.random() < peeks:
                self.state.digest()
            if len(self.events) == restart:
                self.state = ExperimentState.from_bytes(self.state.settings, self.state.to_bytes())
                self.state.look_in(source_of(self.events))

    def step(self, rng: np.random.Generator) -> None:
        at = len(self.events) * SECOND // 3
        chance = rng.random()
        if chance < 0.6 or not self.open:
            event = self.state.decide(f"d{len(self.events)}", at)
            self.open.append((event.id, record_of(event)))
        elif chance < 0.9:
            place = int(rng.integers(len(self.open))) if rng.random() < 0.5 else -1
            event = self.state.observe(*self.open.pop(place), float(rng.random()), at)
        elif chance < 0.95:
            id, known = self.open.pop(0)
            event = self.state.default(id, known, 1.0, at)
            self.late.append((id, known._replace(defaulted=True)))
        elif chance < 0.98 and self.late:
            event = self.state.observe(*self.late.pop(), float(rng.random()), at)
        else:
            event = self.state.change(Status(int(rng.integers(1, 3))), at)
        self.events.append(event)


@pytest.mark.parametrize("words", sampled([*SPECS, *FLOORED], 16))
def test_whoever_makes_or_applies_the_events_has_the_same_state(words: str) -> None:
    maker = Maker(words, 3)
    kinds = {event.kind for event in maker.events}
    assert kinds == {Kind.DECISION, Kind.OUTCOME, Kind.DEFAULT, Kind.PAUSE, Kind.RESUME}
    assert Fate.LATE in {event.fate for event in maker.events}
    applied, halves = ExperimentState(wanted(words)), ExperimentState(wanted(words))
    for event in maker.events:
        applied.apply(event)
        if event.number % 97 == 0:
            halves = ExperimentState.from_bytes(wanted(words), halves.to_bytes())
            halves.look_in(source_of(maker.events))
        halves.apply(event)
    if words in FLOORED:
        propensities = [event.propensity for event in maker.events if event.kind == Kind.DECISION]
        assert 0.1 - 1e-12 <= min(propensities) <= max(propensities) <= 0.8 + 1e-12
    state = maker.state.to_bytes()
    assert applied.to_bytes() == state
    assert halves.to_bytes() == state
    assert (applied.propensity_error, halves.propensity_error) == (0.0, 0.0)
    assert ExperimentState.from_bytes(wanted(words), state).to_bytes() == state


@pytest.mark.parametrize("words", sampled([*SPECS, "ucb, floor", "guarded, floor"], 10))
def test_from_a_snapshot_everything_goes_on_as_it_would_have(words: str) -> None:
    without, peeked, restarted = Maker(words, 4), Maker(words, 4, peeks=0.3), Maker(words, 4, restart=211)
    assert without.events == peeked.events == restarted.events
    state = without.state.to_bytes()
    assert restarted.state.to_bytes() == state
    assert peeked.state.to_bytes() == state


@pytest.mark.parametrize("words", sampled(SPECS, 10))
def test_to_look_at_a_state_does_not_change_it(words: str) -> None:
    """However many decisions wait when an outcome comes: workers that looked and workers that did not agree."""
    for waiting in range(1, 40):
        states = set()
        for looks in (False, True):
            state = ExperimentState(wanted(words))
            events = [state.decide(f"d{k}", k) for k in range(waiting)]
            last = events[-1]
            state.observe(last.id, record_of(last), 0.5, 50)
            if looks:
                state.to_bytes()
            state.decide("next", 60)
            states.add(state.to_bytes())
        assert len(states) == 1, f"with {waiting} waiting"


def test_settings_of_before_have_no_floor() -> None:
    """What is stored of an experiment without a floor stays as it was."""
    plain, floored = wanted("ucb"), wanted("ucb, floor")
    stored = msgspec.json.encode(plain)
    assert stored == (
        b'{"name":"one","arms":["blue",7,"red"],"learner":"ucb","parameters":{},"seed":5,"missing":"wait"}'
    )
    assert msgspec.json.decode(stored, type=ExperimentSettings) == plain
    assert msgspec.json.decode(msgspec.json.encode(floored), type=ExperimentSettings) == floored != plain
    assert (plain.tuning, floored.tuning) == ({}, {"share_floor": 0.1})


def test_some_learners_skip() -> None:
    for words in ("balanced", "robust", "exp3_dropping"):
        assert Fate.SKIPPED in {event.fate for event in Maker(words, 3).events}


def test_events_that_do_not_fit_are_refused() -> None:
    maker = Maker("balanced", 3)
    state = ExperimentState(wanted("balanced"))
    with refused(None, 2, 0, error=LedgerError):
        state.apply(maker.events[1])
    place = next(k for k, event in enumerate(maker.events) if event.fate == Fate.USED)
    for event in maker.events[:place]:
        state.apply(event)
    state.apply(maker.events[place]._replace(fate=int(Fate.SKIPPED)))  # what is on record stays
    assert (state.other_fates, state.bandit.skipped, state.fates[Fate.SKIPPED]) == (1, 1, 1)


def test_a_snapshot_that_is_damaged_anywhere_is_refused() -> None:
    state = Maker("balanced", 3).state.to_bytes()
    one = wanted("balanced")
    for place in (*range(400), *range(400, len(state), 37)):
        for flip in (1, 128):
            damaged = bytearray(state)
            damaged[place] ^= flip
            with pytest.raises(SnapshotError):
                ExperimentState.from_bytes(one, bytes(damaged))
    nonsense: list[Any] = [{}, [], 3, "words", None, {"bandit": 3}, {"bandit": b""}]
    for part in (state[:-1], state[:100], b"", *map(msgspec.msgpack.encode, nonsense)):
        with pytest.raises(SnapshotError):
            ExperimentState.from_bytes(one, part)


def test_where_snapshots_cannot_be_read_the_events_are(ledger: SqlLedger) -> None:
    record, _ = ledger.create(settings("one"), 0, 9)
    processor = CommandProcessor(ledger)
    for k in range(3):
        processor.run([Decide("one", [f"{k}-{n}" for n in range(9)])])
        processor.run(
            [
                observe("one", [(f"{k}-{n}", n / 9) for n in range(5)]),
                KeepSnapshot("one") if k < 2 else ApplyDeadlines("one"),
            ]
        )
    state = read(processor, "one").state.to_bytes()
    (newer, _), (older, _) = ledger.snapshots(record.number)
    assert (newer, older) == (28, 14)

    def loaded() -> bytes:
        return load(ledger, record).to_bytes()

    assert loaded() == state
    for position in (newer, older):
        kept = dict(ledger.snapshots(record.number))[position]
        for place in range(0, 260, 3):
            damaged = kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :]
            with ledger.committing() as connection:
                ledger.run(connection, "UPDATE snapshots SET state = ? WHERE position = ?", (damaged, position))
            assert loaded() == state
    with ledger.committing() as connection:
        ledger.run(connection, "DELETE FROM snapshots")
    assert loaded() == read(CommandProcessor(ledger), "one").state.to_bytes() == state


def test_bins_are_in_order_and_no_wider_than_an_eighth() -> None:
    values = sorted({*range(5000), *(2**k + d for k in range(4, 62) for d in (-1, 0, 1))})
    bins = [bin_of(value) for value in values]
    assert bins == sorted(bins)
    assert bins[:16] == list(range(16))
    for value, index in zip(values, bins, strict=True):
        assert abs(middle_of(index) - value) <= value / 16
        assert middle_of(index) == value or value >= 16


@pytest.mark.parametrize("law", ["small", "narrow", "wide", "heavy", "constant"])
def test_quantiles_are_right_to_a_sixteenth(law: str) -> None:
    rng = np.random.default_rng(8)
    for size in (1, 2, 7, 1009):  # shares of them fall between two numbers, or on one without rounding
        drawn = {
            "small": rng.integers(0, 20, size),
            "narrow": rng.normal(1e6, 2e5, size).clip(0),
            "wide": rng.integers(0, 10**15, size),
            "heavy": 1e6 * rng.pareto(0.5, size),
            "constant": np.full(size, 123_456_789),
        }[law].astype(np.int64)
        sizes = Sizes()
        for value in drawn.tolist():
            sizes.add(value)
        for share in (0.5, 0.9, 0.99):
            exact = float(np.quantile(drawn, share, method="inverted_cdf"))
            found = sizes.quantile(share)
            assert found is not None
            assert abs(found - exact) <= exact / 16
        assert sum(sizes.counts.values()) == size
    assert Sizes().quantile(0.5) is None


def test_histograms_count_exactly() -> None:
    rng = np.random.default_rng(9)
    edges = np.array([round(bound * SECOND) for bound in BOUNDS])
    drawn = np.concatenate([edges, edges - 1, edges + 1, [0], (10 ** rng.uniform(0, 14, 2000)).astype(np.int64)])
    histogram = Histogram()
    for value in drawn.tolist():
        histogram.add(value)
    counts = np.bincount(np.searchsorted(edges, drawn, side="left"), minlength=len(BOUNDS) + 1)
    assert histogram.counts == counts.tolist()
    assert sum(histogram.counts) == drawn.size
    assert [sum(histogram.counts[: k + 1]) for k in range(len(BOUNDS))] == [
        int((drawn <= edge).sum()) for edge in edges
    ]
    assert histogram.total == pytest.approx(math.fsum(drawn / SECOND))


class Untouchable(list[str | int]):
    """Labels that may be counted, not looked at."""

    def __getitem__(self, place: Any) -> Any:
        raise AssertionError("a label was looked at")

    def index(self, *label: Any) -> int:
        raise AssertionError("a label was searched")

    def __iter__(self) -> Any:
        raise AssertionError("labels were walked through")


def test_replay_never_looks_at_labels() -> None:
    """Labels are for the edges: ten thousand of them cost an event no more than ten do."""
    labels = Untouchable(f"arm-{k}" for k in range(10_000))
    settings = ExperimentSettings("many", labels, "uniform", {}, 3, "wait")
    made = ExperimentState(settings)
    events = []
    for k in range(50):
        event = made.decide(f"d{k}", k)
        events += [event, made.observe(f"d{k}", record_of(event), 0.5, k)]
    again = ExperimentState(settings)
    for event in events:
        again.apply(event)
    assert again.to_bytes() == made.to_bytes()
    assert ExperimentState.from_bytes(settings, again.to_bytes()).digest() == made.digest()
