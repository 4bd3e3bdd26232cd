"""Estimates from a ledger: the settled decisions of an experiment, read once each, in their order."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from belated.api.types import ShareLimits
from belated.errors import SnapshotError
from belated.inference.course import Course, Point, course_of, point
from belated.inference.method import Counted, Method, Options
from belated.inference.sources import method_for_stream
from belated.inference.stream import Stream
from belated.ledger.base import Ledger, Result
from belated.ledger.events import (
    COMINGS,
    SECOND,
    Event,
    ExperimentRecord,
    ExperimentSettings,
    Hears,
    Kind,
    distribution_of,
    labels_of,
    present_after,
)
from belated.live.limits import Limits
from belated.live.snapshot import pack, unpack
from belated.logs.changes import Change
from belated.logs.events import EventLog
from belated.logs.log import Arm, Log

READ = 2_000
"""Decisions read at once."""
FIRST_POINT = 10
POINTS = 3
"""The course of what is known has a point after so many decisions, and then so many while their number doubles."""
MOST_ARMS = 24
"""With more arms no course is kept: nobody could read it."""
VERSION = 2
"""Of what is kept of settled decisions."""


class Totals(NamedTuple):
    """What is known of an experiment besides its settled decisions."""

    labels: Sequence[Arm]
    decisions: Sequence[int]
    """Of each arm."""
    waiting: int
    """Decisions without an outcome."""


class SettledDecisions:
    """The settled decisions of an experiment, as far as they were read: a few numbers an arm.

    An arm that comes or leaves does so in the stream once all decisions before are settled; estimates know of it at
    once.
    """

    def __init__(self, n_arms: int, hears: Hears = Hears.ARRIVAL, settings: ExperimentSettings | None = None) -> None:
        """settings: of the experiment, which may guarantee each arm a least probability."""
        self._hears = hears
        self._settings = settings
        self.until = 0
        """The number of the event up to which the ledger was looked at; changes of arms are known up to there."""
        self._waiting: list[Change] = []
        """Changes of arms that the stream has still to come to."""
        self.stream = Stream(n_arms, None if settings is None else _floats(guaranteed(settings, settings.limits)))
        self.position = 0
        """The number of the event up to which decisions were read."""
        self.points: list[Point] = []
        """What was known along the way, by equal factors apart; none after there were more than MOST_ARMS arms."""

    def advance(self, ledger: Ledger, experiment: int, until: int, most: int | None = None) -> bool:
        """Read on, up to the first decision that is not settled, or to an event, or about so many decisions.

        Return whether all is read that is settled.
        """
        for event in ledger.changes(experiment, until, self.until):
            if event.kind == Kind.LIMITS and event.round == 0 and self._settings is not None:
                limits = msgspec.json.decode(event.detail, type=ShareLimits)
                self.stream.guarantee(_floats(guaranteed(self._settings, limits)))
            if event.kind in COMINGS:
                self._waiting.append(Change(event.round, event.arm, COMINGS[Kind(event.kind)]))
        self.until = max(self.until, until)
        end = None if most is None else self.stream.rounds + most
        while end is None or self.stream.rounds < end:
            results = ledger.results(experiment, self._hears, self.position, until, READ)
            settled = next((k for k, each in enumerate(results) if each.loss is None), len(results))
            self._add(results[:settled])
            if settled:
                self.position = results[settled - 1].number
            if settled < READ:
                return True
        return False

    def _add(self, results: Sequence[Result]) -> None:
        """Go on by settled decisions, with a stop at every change of arms and at every point of the course."""
        stream = self.stream
        while results:
            while self._waiting and self._waiting[0].after <= stream.rounds:
                stream.change(*self._waiting.pop(0))
            stop = next_point(stream.rounds)
            if self._waiting:
                stop = min(stop, self._waiting[0].after)
            size = stop - stream.rounds
            _add(stream, results[:size])
            results = results[size:]
            if stream.rounds == stop and is_point(stop) and len(stream.decisions) <= MOST_ARMS:
                counted = Counted(stream.decisions, 0)
                method = method_for_stream(stream, range(len(stream.decisions)), counted, Options())
                self.points.append(point(method, stop))

    def method(self, ledger: Ledger, record: ExperimentRecord, totals: Totals, until: int, options: Options) -> Method:
        """Return the estimates' method on what was read, and on the rest where unsettled decisions count."""
        options.check(totals.labels)
        stream = self.stream
        if self._waiting or options.outcomes != "settled":
            stream, position = stream.copy(), self.position
            for change in self._waiting:
                stream.change(*change)
            while options.outcomes != "settled" and (
                results := ledger.results(record.number, self._hears, position, until, READ)
            ):
                _add(stream, results, arrived=options.outcomes == "arrived")
                position = results[-1].number
        counted = Counted(np.array(totals.decisions, dtype=np.int64), totals.waiting)
        return method_for_stream(stream, totals.labels, counted, options)

    def waiting(self, ledger: Ledger, record: ExperimentRecord, until: int) -> Event | None:
        """Return the decision that is not settled, and so holds up all later ones; None where all are settled."""
        results = ledger.results(record.number, self._hears, self.position, until, 1)
        if not results or results[0].loss is not None:
            return None
        return next(iter(ledger.events(record.number, results[0].number - 1, 1)), None)

    def course(self, method: Method) -> Course | None:
        """Return what was known along the way and is known now; None where nothing is settled, or arms are many."""
        if not self.stream.rounds or method.n_arms > MOST_ARMS:
            return None
        points = [each for each in self.points if each.decisions < self.stream.rounds]
        return course_of([*points, point(method, self.stream.rounds)], method.labels, method.options)

    def to_bytes(self) -> bytes:
        """Return everything, to go on exactly from here."""
        header, arrays = self.stream.to_arrays()
        kept = {
            "version": VERSION,
            "stream": header,
            "position": self.position,
            "until": self.until,
            "waiting": self._waiting,
            "points": [
                [each.decisions, each.used, *(numbers.tolist() for numbers in each[2:5]), each.winner]
                for each in self.points
            ],
        }
        return pack({"settled": kept}, {f"stream_{name}": array for name, array in arrays.items()})

    @classmethod
    def from_bytes(cls, blob: bytes, hears: Hears, settings: ExperimentSettings | None = None) -> "SettledDecisions":
        """Go on from what was kept; `SnapshotError` where another version of belated kept it."""
        header, arrays = unpack(blob)
        kept = header.get("settled", {})
        if kept.get("version") != VERSION:
            raise SnapshotError(f"what is kept of settled decisions has version {kept.get('version')}, not {VERSION}")
        stream = Stream.from_arrays(
            kept["stream"], {name.removeprefix("stream_"): array for name, array in arrays.items()}
        )
        settled = cls(0, hears)
        settled._settings = settings
        settled.stream, settled.position, settled.until = stream, kept["position"], kept["until"]
        settled._waiting = [Change(*each) for each in kept["waiting"]]
        settled.points = [
            Point(decisions, used, _floats(means), _floats(lows), _floats(highs), winner)
            for decisions, used, means, lows, highs, winner in kept["points"]
        ]
        return settled


def _floats(numbers: list[float]) -> NDArray[np.float64]:
    return np.array(numbers, dtype=np.float64)


def next_point(rounds: int) -> int:
    """Return after how many decisions, more than so many, the course of an experiment has its next point."""
    k = 0 if rounds < FIRST_POINT else int(POINTS * math.log2((rounds + 1) / FIRST_POINT))
    while (at := round(FIRST_POINT * 2.0 ** (k / POINTS))) <= rounds:
        k += 1
    return at


def is_point(rounds: int) -> bool:
    """Return whether the course of an experiment has a point after so many decisions."""
    return rounds == next_point(rounds - 1)


def _add(stream: Stream, results: Sequence[Result], arrived: bool = False) -> None:
    if results:
        _, arms, propensities, losses, details = zip(*results, strict=True)
        rewards = np.array([np.nan if loss is None else 1.0 - loss for loss in losses])
        stream.add(
            np.array(arms, dtype=np.int64),
            rewards,
            np.array(propensities, dtype=np.float64),
            _distributions(stream, details),
            arrived=arrived,
        )


def _distributions(stream: Stream, details: Sequence[str | None]) -> NDArray[np.float64] | None:
    """Return the probabilities of all arms that are on record with decisions; None where none has them."""
    if not any(details):
        return None
    found = np.full((len(details), len(stream.decisions)), np.nan)
    for begin, end, present in stream.presence(len(details)):
        arms = np.flatnonzero(present)
        for place in range(begin, end):
            detail = details[place]
            if detail is not None:
                found[place] = 0.0
                found[place, arms] = msgspec.json.decode(detail)
    return found


def guaranteed(settings: ExperimentSettings, limits: ShareLimits | None) -> list[float]:
    """Return the least probability of each arm of an experiment, as it was created, under these limits."""
    shares = {} if limits is None else {each.arm: each.range for each in limits.arms}
    holdout = 0.0 if limits is None else limits.holdout
    return Limits(shares, holdout).guaranteed(settings.arms, settings.share_floor or 0.0)


def log_of(ledger: Ledger, record: ExperimentRecord) -> Log:
    """Return all decisions of an experiment and what came of them, for `belated.inference`."""
    arms = labels_of(record.settings, ledger.changes(record.number, record.events))
    log = EventLog(record.settings.arms)
    log.guaranteed(guaranteed(record.settings, record.settings.limits))
    present = list(range(len(record.settings.arms)))
    for events in ledger.all_events(record.number):
        for event in events:
            if event.kind == Kind.DECISION:
                distribution = distribution_of(event, arms, present)
                log.decided(event.round, arms[event.arm], event.propensity, event.at / SECOND, distribution)
            elif event.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED):
                log.came(event.round, event.loss, event.at / SECOND)
            elif event.kind in COMINGS:
                log.changed(arms[event.arm], COMINGS[Kind(event.kind)])
                present = present_after(event, present)
            elif event.kind == Kind.LIMITS and event.round == 0:
                log.guaranteed(guaranteed(record.settings, msgspec.json.decode(event.detail, type=ShareLimits)))
    return log.log()
