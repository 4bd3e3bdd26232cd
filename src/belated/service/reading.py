"""What is shown of experiments. Threads that read make it, from copies, and only once for each state."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, TypeVar

from belated.api.types import Experiment, ExperimentTimeline
from belated.errors import InvalidValue, SnapshotError
from belated.inference import Estimates
from belated.inference.method import Method, Options
from belated.ledger.commands import Refused, View
from belated.ledger.estimates import SettledDecisions, Totals
from belated.ledger.events import SECOND, ExperimentRecord, Status
from belated.ledger.keeper import SettledSnapshot
from belated.ledger.processor import CommandProcessor
from belated.ledger.state import ExperimentState
from belated.service import metrics, views
from belated.service.answers import answer
from belated.service.errors import ApiError
from belated.service.http import encode
from belated.service.metrics import Figures
from belated.service.views import unwrap

logger = logging.getLogger("belated.service")
K = TypeVar("K")
V = TypeVar("V")

SETTLED_AT_ONCE = 10_000
"""Settled decisions that are read at once, before others have their turn."""
KEEP_LEAST = 2_000
KEEP_FACTOR = 1.02
"""What was read of settled decisions is kept in the ledger when it has grown by so much: after a restart, and by other
workers, only the rest is read.
"""
MOST_SHOWN = 64
"""Experiments of which what was shown last is kept: more than the list shows on a page."""


MOST_ARMS = 200
"""Arms of which pages are told what is known, those with the most decisions: more than they list."""


class Shown(NamedTuple):
    """An experiment as it was shown."""

    events: int
    status: Status
    content: bytes
    """JSON."""


class Look(NamedTuple):
    """An experiment as pages show it."""

    events: int
    status: Status
    experiment: Experiment
    timeline: ExperimentTimeline


class _Copy(NamedTuple):
    """What is taken from a state while nobody may change it."""

    record: ExperimentRecord
    status: Status
    state: bytes | None
    """None where the state is the one that was shown before."""


class Reader:
    """Shows the experiments of a processor. Threads may share it."""

    def __init__(self, processor: CommandProcessor, keep_settled: Callable[[SettledSnapshot], None]) -> None:
        self._processor = processor
        self._keep_settled = keep_settled
        self._shown: OrderedDict[tuple[str, bool], Shown] = OrderedDict()
        self._looks: OrderedDict[str, Look] = OrderedDict()
        self._figures: dict[str, tuple[int, Figures]] = {}
        self._settled: OrderedDict[int, _Settled] = OrderedDict()
        """By the numbers of experiments."""
        self._lock = Lock()

    def experiment(self, name: str, digest: bool) -> Shown:
        """Return an experiment as JSON, with everything that was acknowledged before now; perhaps with its digest."""
        before = self._shown.get((name, digest))
        view = self._view(name, before)
        if view is None:
            assert before is not None
            return before
        shown = Shown(view.state.position, view.status, encode(views.experiment(view, digest)))
        self._keep(self._shown, (name, digest), shown)
        return shown

    def look(self, name: str) -> Look:
        """Return an experiment and what it did over time, with everything that was acknowledged before now."""
        before = self._looks.get(name)
        view = self._view(name, before)
        if view is None:
            assert before is not None
            return before
        look = Look(view.state.position, view.status, views.experiment(view), views.timeline(view))
        self._keep(self._looks, name, look)
        return look

    def timeline(self, name: str) -> bytes:
        """Return what an experiment did over time, as JSON."""
        return encode(self.look(name).timeline)

    def _view(self, name: str, before: Shown | Look | None) -> View | None:
        """Return a copy of the state of an experiment; None where nothing has happened since it was shown before."""

        def copied(view: View) -> _Copy:
            events = view.state.position
            is_new = before is None or (before.events, before.status) != (events, view.status)
            return _Copy(view.record, view.status, view.state.to_bytes() if is_new else None)

        copy: _Copy = unwrap(self._processor.read(name, copied))
        if copy.state is None:
            return None
        state = ExperimentState.from_bytes(copy.record.settings, copy.state)
        self._processor.log_warnings(name, state.bandit.warnings_by_kind)
        return View(copy.record, copy.status, state)

    def _keep(self, kept: OrderedDict[K, V], key: K, value: V) -> None:
        """Keep what was shown last."""
        with self._lock:
            kept[key] = value
            kept.move_to_end(key)
            if len(kept) > MOST_SHOWN:
                kept.popitem(last=False)

    def read_settled(self, name: str) -> bool:
        """Read some settled decisions of an experiment that are new; return whether that was all of them."""
        kept, taken = self._settled_of(name)
        number = taken.record.number
        with kept.lock:
            if taken.until - kept.settled.position > SETTLED_AT_ONCE and not kept.is_refused:
                self._take_kept(kept, taken)
            is_all = kept.settled.advance(self._processor.ledger, number, taken.until, SETTLED_AT_ONCE)
            rounds = kept.settled.stream.rounds
            if rounds >= kept.rounds * KEEP_FACTOR + KEEP_LEAST:
                kept.rounds = rounds
                self._keep_settled(SettledSnapshot(name, number, kept.settled.position, kept.settled.to_bytes()))
        return is_all

    def _take_kept(self, kept: "_Settled", taken: "_Taken") -> None:
        """Go on from what the ledger has of settled decisions, if somebody has read further than this worker."""
        record = taken.record
        blob = self._processor.ledger.settled(record.number, kept.settled.position)
        if blob is None:
            return
        try:
            found = SettledDecisions.from_bytes(blob, record.settings.hears, record.settings)
        except SnapshotError as error:
            logger.warning(
                "reading what is kept of the settled decisions of experiment %s failed: %s; they are read again",
                record.settings.name,
                error,
            )
            kept.is_refused = True
            return
        if found.until <= taken.until:  # it may know of arms that this worker does not know yet
            kept.settled, kept.rounds = found, found.stream.rounds

    def estimates(self, name: str, options: Options) -> bytes:
        """Return what is known of an experiment's arms, as JSON, from the decisions that were read."""
        with self._locked(name) as (kept, taken):
            return encode(views.estimates(name, _estimates(taken, self._method(kept, taken, options))))

    def known(self, name: str, outcomes: str) -> bytes:
        """Return what is known of an experiment's arms and what was known along the way, as JSON, for pages."""
        with self._locked(name) as (kept, taken):
            method = self._method(kept, taken, Options(outcomes=outcomes))
            scale, course, waiting = taken.record.settings.scale, None, None
            if outcomes == "settled":
                course = kept.settled.course(method)
                waiting = kept.settled.waiting(self._processor.ledger, taken.record, taken.until)
            if course is not None and scale is not None:
                course = course.in_units(scale)
            shown = None if course is None else views.course(course)
            waits_for = None if waiting is None else views.WaitsFor(waiting.round, waiting.id, waiting.at / SECOND)
            estimates = _estimates(taken, method)
            found = views.estimates(name, estimates)
            found.arms = sorted(found.arms, key=lambda arm: -arm.decisions)[:MOST_ARMS]
            return encode(views.Known(found, answer(estimates), shown, waits_for))

    def _method(self, kept: "_Settled", taken: "_Taken", options: Options) -> Method:
        options = _with_label(taken.totals, options)._replace(per_day=taken.per_day)
        try:
            return kept.settled.method(self._processor.ledger, taken.record, taken.totals, taken.until, options)
        except InvalidValue as error:
            raise ApiError("invalid", str(error), error.field) from None

    @contextmanager
    def _locked(self, name: str) -> Iterator[tuple["_Settled", "_Taken"]]:
        """Have what was read of settled decisions to oneself, with a state that is as new."""
        kept, taken = self._settled_of(name)
        with kept.lock:
            if kept.settled.until > taken.until:  # others have read on meanwhile
                _, taken = self._settled_of(name)
            yield kept, taken

    def _settled_of(self, name: str) -> tuple["_Settled", "_Taken"]:
        found = self._processor.read(name, _taken)
        if isinstance(found, Refused):
            raise ApiError(found.code, found.message, found.field)
        number = found.record.number
        with self._lock:
            settings = found.record.settings
            if number not in self._settled:
                self._settled[number] = _Settled(SettledDecisions(len(settings.arms), settings.hears, settings))
            kept = self._settled[number]
            self._settled.move_to_end(number)
            if len(self._settled) > MOST_SHOWN:
                self._settled.popitem(last=False)
        return kept, found

    def known_figures(self, name: str, events: int) -> Figures | None:
        """Return the figures of an experiment that has so many events, if they are known."""
        found = self._figures.get(name)
        return found[1] if found and found[0] == events else None

    def figures(self, name: str) -> Figures | None:
        """Return the figures of an experiment; None where it is damaged."""
        taken = self._processor.read(name, lambda view: (view.state.position, metrics.experiment(view.state)))
        if isinstance(taken, Refused):
            return None
        self._figures[name] = taken
        return taken[1]


@dataclass
class _Settled:
    """The settled decisions of an experiment, and how many of them the ledger keeps."""

    settled: SettledDecisions
    rounds: int = 0
    is_refused: bool = False
    """Whether what the ledger keeps cannot be used."""
    lock: Lock = field(default_factory=Lock)
    """Of whoever reads on."""


class _Taken(NamedTuple):
    """What estimates take from a state."""

    record: ExperimentRecord
    until: int
    totals: Totals
    per_day: float | None
    """Decisions in a day."""


def _taken(view: View) -> _Taken:
    state = view.state
    waiting = sum(state.decisions) - sum(state.outcomes) - state.held
    return _Taken(
        view.record,
        state.position,
        Totals(tuple(state.labels), tuple(state.decisions), waiting),
        state.timeline.per_day,
    )


def _estimates(taken: _Taken, method: Method) -> Estimates:
    """Return estimates in the experiment's own units."""
    found, scale = method.estimates(), taken.record.settings.scale
    return found if scale is None else found.in_units(scale)


def _with_label(totals: Totals, options: Options) -> Options:
    """Return options whose control is the label of an arm, which may be a number."""
    labels = {str(label): label for label in totals.labels}
    return options._replace(control=labels.get(str(options.control), options.control))
