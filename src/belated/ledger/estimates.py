"""Estimates from a ledger: the settled decisions of an experiment, read once each, in their order."""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from belated.inference.method import Counted, Method, Options
from belated.inference.sources import method_for_stream
from belated.inference.stream import Stream
from belated.ledger.base import Ledger, Result
from belated.ledger.events import SECOND, ExperimentRecord, Hears, Kind, labels_of
from belated.logs.events import EventLog
from belated.logs.log import Arm, Log

READ = 2_000
"""Decisions read at once."""


_COMINGS = {Kind.ADD_ARM: True, Kind.RETIRE_ARM: False, Kind.RESTORE_ARM: True}
"""Changes of arms, and whether the arm takes part after them."""


class Totals(NamedTuple):
    """What is known of an experiment besides its settled decisions."""

    labels: Sequence[Arm]
    decisions: Sequence[int]
    """Of each arm."""
    waiting: int
    """Decisions without an outcome."""


class SettledDecisions:
    """The settled decisions of an experiment, as far as they were read: a few numbers an arm."""

    def __init__(self, n_arms: int, hears: Hears = Hears.ARRIVAL) -> None:
        self._hears = hears
        self._changed = 0  # the number of the last event that changed arms, as far as the stream knows
        self.lock = Lock()
        """Of whoever reads on."""
        self.stream = Stream(n_arms)
        self.position = 0
        """The number of the event up to which decisions were read."""

    def advance(self, ledger: Ledger, experiment: int, until: int, most: int | None = None) -> bool:
        """Read on, up to the first decision that is not settled, or to an event, or about so many decisions.

        Return whether all is read that is settled.
        """
        for event in ledger.changes(experiment, until):
            if event.number > self._changed and event.kind in _COMINGS:
                self.stream.change(event.round, event.arm, _COMINGS[Kind(event.kind)])
                self._changed = event.number
        end = None if most is None else self.stream.rounds + most
        while end is None or self.stream.rounds < end:
            results = ledger.results(experiment, self._hears, self.position, until, READ)
            settled = next((k for k, each in enumerate(results) if each.loss is None), len(results))
            _add(self.stream, results[:settled])
            if settled:
                self.position = results[settled - 1].number
            if settled < READ:
                return True
        return False

    def method(self, ledger: Ledger, record: ExperimentRecord, totals: Totals, until: int, options: Options) -> Method:
        """Return the estimates' method on what was read, and on the rest where unsettled decisions count."""
        options.check(totals.labels)
        stream = self.stream
        if options.outcomes != "settled":
            stream, position = stream.copy(), self.position
            while results := ledger.results(record.number, self._hears, position, until, READ):
                _add(stream, results, arrived=options.outcomes == "arrived")
                position = results[-1].number
        counted = Counted(np.array(totals.decisions, dtype=np.int64), totals.waiting)
        return method_for_stream(stream, totals.labels, counted, options)


def _add(stream: Stream, results: Sequence[Result], arrived: bool = False) -> None:
    if results:
        _, arms, propensities, losses = zip(*results, strict=True)
        rewards = np.array([np.nan if loss is None else 1.0 - loss for loss in losses])
        stream.add(np.array(arms, dtype=np.int64), rewards, np.array(propensities, dtype=np.float64), arrived=arrived)


def log_of(ledger: Ledger, record: ExperimentRecord) -> Log:
    """Return all decisions of an experiment and what came of them, for `belated.inference`."""
    arms = labels_of(record.settings, ledger.changes(record.number, record.events))
    log = EventLog(record.settings.arms)
    for events in ledger.all_events(record.number):
        for event in events:
            if event.kind == Kind.DECISION:
                log.decided(event.round, arms[event.arm], event.propensity, event.at / SECOND)
            elif event.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED):
                log.came(event.round, event.loss, event.at / SECOND)
            elif event.kind in _COMINGS:
                log.changed(arms[event.arm], _COMINGS[Kind(event.kind)])
    return log.log()
