"""Estimates from whatever holds decisions and outcomes."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from belated.errors import InvalidValue, unknown
from belated.inference.betting import Betting
from belated.inference.estimates import Estimates
from belated.inference.method import Counted, Method, Options
from belated.inference.one_look import OneLook
from belated.inference.randomisation import Randomisation
from belated.inference.stream import Stream, stream_of
from belated.logs.deadlines import with_deadline
from belated.logs.files import frame_log
from belated.logs.log import Arm, Log
from belated.logs.scale import Scale
from belated.specs import duration

DAY = 86_400.0


@runtime_checkable
class HasLog(Protocol):
    """What can be read as a log: a trace of a simulation."""

    def log(self) -> Log: ...


def estimates(
    source: Log | HasLog | Any,
    *,
    alpha: float = 0.05,
    control: Arm | None = None,
    method: str | None = None,
    outcomes: str = "settled",
    assigned: str | Mapping[Arm, float] | None = None,
    floor: float | None = None,
    deadline: int | None = None,
    deadline_after: float | str | None = None,
    missing_loss: float | None = None,
    scale: Scale | None = None,
) -> Estimates:
    """Return what is known of the arms: means, differences, the winner, the uplift, with intervals.

    Parameters
    ----------
    source
        A `Log`, a trace of a simulation, or a frame of polars or pandas with a row for each decision (`read_log` says
        how columns are found).
    alpha
        The probability with which each kind of statement may be wrong, at any time.
    control
        An arm that the others are compared with.
    method
        `"randomisation"`: means may move, propensities are true; the default where decisions were open. `"betting"`:
        means stay the same; the default elsewhere. `"aipw"`: means stay the same, and this is the one look that was
        planned.
    outcomes
        `"settled"`: decisions from the first on that all have outcomes, valid whatever delays depend on; `"arrived"`:
        all outcomes, valid where delays depend neither on them nor on arms; `"bounded"`: all decisions, unknown
        rewards anything from 0 to 1.
    assigned
        How arms were drawn, where the log has no propensities: `"uniform"`, each with the same probability, or the
        probability of each arm, fixed before the first decision.
    floor
        The least probability of every arm that was guaranteed before the first decision, where the log does not say.
        Comparisons are then of plain averages.
    deadline, deadline_after, missing_loss
        Decisions without an outcome after so many more decisions, or after so much time (`"7d"`, or a number in the
        unit of the log), have this loss (1 by default), and later outcomes do not count.
    scale
        The range of outcomes in units of your own: estimates are in these units, and a frame may have a column of
        values in place of rewards.
    """
    if isinstance(source, HasLog):
        log = source.log()
    elif hasattr(source, "columns"):
        log = frame_log(source, scale=scale)
    elif isinstance(source, Log):
        log = source
    else:
        raise InvalidValue(f"source is {source!r}; a Log, a Trace or a frame is needed", "source")
    options = Options(alpha, control, method, outcomes).check(log.labels)
    if assigned is not None:
        log = _with_assigned(log, assigned)
    if floor is not None:
        log = log.with_floor(floor)
    after = None if deadline_after is None else duration("deadline_after", deadline_after, log.in_seconds)
    settled = with_deadline(log, deadline, after, missing_loss)
    if settled is not None:
        words = f"{deadline:,} more decisions" if deadline is not None else f"{after:,g}{' s' * log.in_seconds}"
        log = settled.log
        options = options._replace(deadline=(words, 1.0 if missing_loss is None else missing_loss))
    elif missing_loss is not None:
        raise InvalidValue(f"missing_loss is {missing_loss!r}, but there is no deadline", "missing_loss")
    found = method_for_log(log, options._replace(per_day=_per_day(log))).estimates()
    return found if scale is None else found.in_units(scale)


def _per_day(log: Log) -> float | None:
    """Return how many decisions were made in a day in the second half of a log; None where it does not say."""
    if log.times is None or not log.in_seconds or log.arms.size < 2:
        return None
    half = log.arms.size // 2
    took = float(log.times[-1] - log.times[half])
    return (log.arms.size - 1 - half) * DAY / took if took > 0.0 else None


def _with_assigned(log: Log, assigned: str | Mapping[Arm, float]) -> Log:
    """Return the log with the fixed probabilities of its arms."""
    if not np.isnan(log.propensities).all():
        raise InvalidValue(f"assigned is {assigned!r}, but the log has propensities; these count", "assigned")
    if isinstance(assigned, str):
        if assigned != "uniform":
            raise unknown("assigned", assigned, ("uniform",))
        return log.with_shares([1.0 / len(log.labels)] * len(log.labels))
    by_text = {str(arm): share for arm, share in assigned.items()}
    for arm in by_text.keys() - {str(label) for label in log.labels}:
        raise unknown("arm", arm, [str(label) for label in log.labels], "assigned")
    return log.with_shares([by_text.get(str(label), 0.0) for label in log.labels])


def method_for_log(log: Log, options: Options) -> Method:
    waiting = int(np.count_nonzero(np.isnan(log.rewards)))
    if options.method == "aipw":
        counted = Counted(np.bincount(log.arms, minlength=len(log.labels)), waiting)
        return OneLook(log, counted, options)
    stream = stream_of(log, options.outcomes)
    n_arms = len(stream.decisions)  # without those that are still to come
    counted = Counted(np.bincount(log.arms, minlength=n_arms), waiting)
    return method_for_stream(stream, log.labels[:n_arms], counted, options.check(log.labels[:n_arms]))


def method_for_stream(stream: Stream, labels: Any, counted: Counted, options: Options) -> Method:
    """Return a method of estimating; by default the one that holds where means move, wherever it can be used."""
    if options.method == "aipw":
        raise InvalidValue(
            "method 'aipw' needs the probability of every arm in every round, which only a trace of a simulation has",
            "method",
        )
    is_open = stream.bets is not None and (stream.bets.compared or not stream.rounds)
    if options.method == "randomisation" or (options.method is None and is_open):
        return Randomisation(stream, labels, counted, options)
    return Betting(stream, labels, counted, options)
