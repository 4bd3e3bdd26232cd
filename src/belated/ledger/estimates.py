"""Estimates from a ledger: the settled decisions of an experiment, read once each, in their order."""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from belated.inference.method import Counted, Method, Options
from belated.inference.sources import method_for_stream
from belated.inference.stream import Stream
from belated.ledger.base import Ledger, Result
from belated.ledger.events import SECOND, ExperimentRecord, Kind
from belated.logs.events import EventLog
from belated.logs.log import Log

READ = 2_000
"""Decisions read at once."""


class Totals(NamedTuple):
    """What is known of an experiment besides its settled decisions."""

    decisions: Sequence[int]
    """Of each arm."""
    waiting: int
    """Decisions without an outcome."""


class SettledDecisions:
    """The settled decisions of an experiment, as far as they were read: a few numbers an arm."""

    def __init__(self, n_arms: int) -> None:
        self.lock = Lock()
        """Of whoever reads on."""
        self.stream = Stream(n_arms)
        self.position = 0
        """The number of the event up to which decisions were read."""

    def advance(self, ledger: Ledger, experiment: int, until: int, most: int | None = None) -> bool:
        """Read on, up to the first decision that is not settled, or to an event, or about so many decisions.

        Return whether all is read that is settled.
        """
        end = None if most is None else self.stream.rounds + most
        while end is None or self.stream.rounds < end:
            results = ledger.results(experiment, self.position, until, READ)
            settled = next((k for k, each in enumerate(results) if each.loss is None), len(results))
            _add(self.stream, results[:settled])
            if settled:
                self.position = results[settled - 1].number
            if settled < READ:
                return True
        return False

    def method(self, ledger: Ledger, record: ExperimentRecord, totals: Totals, until: int, options: Options) -> Method:
        """Return the estimates' method on what was read, and on the rest where unsettled decisions count."""
        options.check(record.settings.arms)
        stream = self.stream
        if options.outcomes != "settled":
            stream, position = stream.copy(), self.position
            while results := ledger.results(record.number, position, until, READ):
                _add(stream, [each for each in results if each.loss is not None or options.outcomes == "bounded"])
                position = results[-1].number
        counted = Counted(np.array(totals.decisions, dtype=np.int64), totals.waiting)
        return method_for_stream(stream, record.settings.arms, counted, options)


def _add(stream: Stream, results: Sequence[Result]) -> None:
    if results:
        _, arms, propensities, losses = zip(*results, strict=True)
        rewards = np.array([np.nan if loss is None else 1.0 - loss for loss in losses])
        stream.add(np.array(arms, dtype=np.int64), rewards, np.array(propensities, dtype=np.float64))


def log_of(ledger: Ledger, record: ExperimentRecord) -> Log:
    """Return all decisions of an experiment and what came of them, for `belated.inference`."""
    log = EventLog(record.settings.arms)
    arms = record.settings.arms
    for events in ledger.all_events(record.number):
        for event in events:
            if event.kind == Kind.DECISION:
                log.decided(event.round, arms[event.arm], event.propensity, event.at / SECOND)
            elif event.kind in (Kind.OUTCOME, Kind.DEFAULT):
                log.came(event.round, event.loss, event.at / SECOND)
    return log.log()
