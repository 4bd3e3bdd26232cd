"""What is shown of experiments. Threads that read make it, from copies, and only once for each state."""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from belated.ledger.commands import Refused, View
from belated.ledger.events import ExperimentRecord, Status
from belated.ledger.processor import CommandProcessor
from belated.ledger.state import ExperimentState
from belated.service import metrics, views
from belated.service.http import encode
from belated.service.metrics import Figures
from belated.service.views import unwrap

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
