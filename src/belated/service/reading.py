"""What is shown of experiments. Threads that read make it, from copies, and only once for each state."""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from belated.errors import InvalidValue
from belated.inference.method import Options
from belated.ledger.commands import Refused, View
from belated.ledger.estimates import SettledDecisions, Totals
from belated.ledger.events import ExperimentRecord, Status
from belated.ledger.processor import CommandProcessor
from belated.ledger.state import ExperimentState
from belated.service import metrics, views
from belated.service.errors import ApiError
from belated.service.http import encode
from belated.service.metrics import Figures
from belated.service.views import unwrap

SETTLED_AT_ONCE = 10_000
"""Settled decisions that are read at once, before others have their turn."""
MOST_SHOWN = 32
"""Experiments of which what was shown last is kept."""


class Shown(NamedTuple):
    """An experiment as it was shown."""

    events: int
    status: Status
    content: bytes
    """JSON."""


class _Copy(NamedTuple):
    """What is taken from a state while nobody may change it."""

    record: ExperimentRecord
    status: Status
    events: int
    state: bytes | None
    """None where the state is the one that was shown before."""


class Reader:
    """Shows the experiments of a processor. Threads may share it."""

    def __init__(self, processor: CommandProcessor) -> None:
        self._processor = processor
        self._shown: OrderedDict[tuple[str, bool], Shown] = OrderedDict()
        self._figures: dict[str, tuple[int, Figures]] = {}
        self._settled: OrderedDict[int, SettledDecisions] = OrderedDict()
        """By the numbers of experiments."""
        self._lock = Lock()

    def experiment(self, name: str, digest: bool) -> Shown:
        """Return an experiment as JSON, with everything that was acknowledged before now; perhaps with its digest."""
        before = self._shown.get((name, digest))

        def copied(view: View) -> _Copy:
            events = view.state.position
            is_new = before is None or (before.events, before.status) != (events, view.status)
            return _Copy(view.record, view.status, events, view.state.to_bytes() if is_new else None)

        copy = self._processor.read(name, copied)
        if isinstance(copy, Refused):
            unwrap(copy)
        assert isinstance(copy, _Copy)
        if copy.state is None:
            assert before is not None
            return before
        state = ExperimentState.from_bytes(copy.record.settings, copy.state)
        self._processor.log_warnings(name, state.bandit.warnings_by_kind)
        content = encode(views.experiment(View(copy.record, copy.status, state), digest))
        shown = Shown(copy.events, copy.status, content)
        with self._lock:
            self._shown[name, digest] = shown
            self._shown.move_to_end((name, digest))
            if len(self._shown) > MOST_SHOWN:
                self._shown.popitem(last=False)
        return shown

    def timeline(self, name: str) -> bytes:
        """Return what an experiment did over time, as JSON."""
        return encode(unwrap(self._processor.read(name, views.timeline)))

    def read_settled(self, name: str) -> bool:
        """Read some settled decisions of an experiment that are new; return whether that was all of them."""
        kept, taken = self._settled_of(name)
        with kept.lock:
            return kept.advance(self._processor.ledger, taken.record.number, taken.until, SETTLED_AT_ONCE)

    def estimates(self, name: str, options: Options) -> bytes:
        """Return what is known of an experiment's arms, as JSON, from the decisions that were read."""
        kept, taken = self._settled_of(name)
        ledger, record = self._processor.ledger, taken.record
        with kept.lock:
            try:
                method = kept.method(ledger, record, taken.totals, taken.until, _with_label(taken.totals, options))
                found, scale = method.estimates(), record.settings.scale
                return encode(views.estimates(name, found if scale is None else found.in_units(scale)))
            except InvalidValue as error:
                raise ApiError("invalid", str(error), error.field) from None

    def _settled_of(self, name: str) -> tuple[SettledDecisions, "_Taken"]:
        found = self._processor.read(name, _taken)
        if isinstance(found, Refused):
            raise ApiError(found.code, found.message, found.field)
        number = found.record.number
        with self._lock:
            settings = found.record.settings
            kept = self._settled.setdefault(number, SettledDecisions(len(settings.arms), settings.hears))
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


class _Taken(NamedTuple):
    """What estimates take from a state."""

    record: ExperimentRecord
    until: int
    totals: Totals


def _taken(view: View) -> _Taken:
    state = view.state
    waiting = sum(state.decisions) - sum(state.outcomes) - state.held
    return _Taken(view.record, state.position, Totals(tuple(state.labels), tuple(state.decisions), waiting))


def _with_label(totals: Totals, options: Options) -> Options:
    """Return options whose control is the label of an arm, which may be a number."""
    labels = {str(label): label for label in totals.labels}
    return options._replace(control=labels.get(str(options.control), options.control))
