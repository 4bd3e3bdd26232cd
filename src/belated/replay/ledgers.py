"""Replays of experiments of the service, from their ledger."""

from dataclasses import replace
from typing import Any

from belated.errors import needs_extra
from belated.logs import Log
from belated.replay.replay import Replay, Reproduced, replay_log


def replay_experiment(ledger: Any, record: Any, log: Log, *args: Any, **options: Any) -> Replay:
    """Return the replay of an experiment; its own learner is run again from its own draws and compared."""
    with needs_extra("the ledger", "service"):
        from belated.ledger.verify import verify
    verdict = verify(ledger, record)
    reproduced = Reproduced(record.settings.learner, verdict.rounds, verdict.propensity_error, tuple(verdict.faults))
    return replace(replay_log(log, *args, **options), reproduced=reproduced)
