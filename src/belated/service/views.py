"""Experiments as the service shows them."""

import math
from typing import Any

import msgspec
from msgspec import UNSET

from belated.api.types import (
    ArmDifference,
    ArmMean,
    ArmState,
    ArmTimeline,
    DayRange,
    DecisionRange,
    DelayCounts,
    DelayQuantiles,
    Experiment,
    ExperimentEstimates,
    ExperimentTimeline,
    LastDay,
    LevelMovement,
    NamedArm,
    OutcomeCounts,
    Quantiles,
    Range,
    Summary,
)
from belated.inference import Course, Estimate, Estimates
from belated.ledger.base import Outline
from belated.ledger.commands import Refused, View
from belated.ledger.delay_histogram import BOUNDS, Sizes
from belated.ledger.events import SECOND, Fate, when
from belated.ledger.timeline import ARMS, HALF_HOUR, OTHERS
from belated.service.answers import Answer
from belated.service.errors import ApiError


def experiment(view: View, digest: bool = False) -> Experiment:
    """Return the state of an experiment as it is shown, perhaps with a digest of everything that the worker knows of
    it.
    """
    settings, state = view.record.settings, view.state
    bandit = state.bandit
    patience = bandit.patience
    return Experiment(
        name=settings.name,
        status=_status(view.status),
        created=when(view.record.created),
        learner=settings.learner,
        parameters=settings.parameters,
        seed=settings.seed,
        missing=settings.missing,
        rounds=bandit.rounds,
        outstanding=bandit.outstanding,
        skipped=bandit.skipped,
        patience=None if math.isinf(patience) else patience,
        drift=bandit.drift,
        delay_cost=None if state.certain else state.delay_cost,
        warnings=list(bandit.warnings),
        outcomes=OutcomeCounts(
            used=state.fates[Fate.USED],
            skipped=state.skipped_outcomes,
            defaults=state.defaults,
            held=state.held,
            clipped=state.clipped,
        ),
        delays=DelayQuantiles(_quantiles(state.delays_rounds, 1), _quantiles(state.delays_seconds, SECOND)),
        arms=[_arm(view, k, probability) for k, probability in enumerate(bandit.distribution.tolist())],
        events=state.position,
        share_floor=settings.share_floor or 0.0,
        outcome=settings.outcome,
        reports=settings.reports,
        limits=state.limits,
        fallbacks=state.fallbacks,
        digest=state.digest() if digest else UNSET,
    )


def _arm(view: View, arm: int, probability: float) -> ArmState:
    state, settings = view.state, view.record.settings
    outcomes, roster = state.outcomes[arm], state.bandit.roster
    mean = state.losses[arm] / outcomes if outcomes else None
    present = roster.has(arm)
    return ArmState(
        state.label(arm),
        probability,
        state.decisions[arm],
        outcomes,
        mean,
        present,
        None if mean is None or settings.scale is None else settings.scale.value(mean),
        roster.entered[arm] if present else 0,
    )


def timeline(view: View) -> ExperimentTimeline:
    """Return what an experiment did over time as it is shown."""
    state = view.state
    stretches = list(state.timeline)
    arms = [*range(min(len(state.decisions), ARMS)), *([OTHERS] if len(state.decisions) > ARMS else [])]
    labels = {arm: None if arm == OTHERS else state.label(arm) for arm in arms}
    return ExperimentTimeline(
        name=view.record.settings.name,
        begin=stretches[0].begin / SECOND if stretches else 0.0,
        seconds=state.timeline.width,
        arms=[
            ArmTimeline(
                labels[arm],
                [each.decisions.get(arm, 0) for each in stretches],
                [each.outcomes.get(arm, 0) for each in stretches],
                [each.losses.get(arm, 0.0) for each in stretches],
                state.timeline.defaults.get(arm, 0),
            )
            for arm in arms
        ],
        outstanding=[each.outstanding for each in stretches],
        delay_bounds=[float(bound) for bound in BOUNDS],
        delays=[
            DelayCounts(labels[arm], good, list(each.counts))
            for (arm, good), each in sorted(state.timeline.delays.items())
        ],
        last_decision=state.timeline.decided_at / SECOND if state.timeline.decided_at else None,
        last_day=_last_day(state.timeline.half_hours),
    )


def _last_day(counts: dict[int, list[int]]) -> LastDay:
    numbers = range(min(counts), max(counts) + 1) if counts else range(0)
    columns = [[counts.get(number, (0, 0))[k] for number in numbers] for k in (0, 1)]
    return LastDay(numbers.start * HALF_HOUR / SECOND, HALF_HOUR / SECOND, *columns)


def estimates(name: str, found: Estimates) -> ExperimentEstimates:
    """Return what is known of an experiment's arms as it is shown."""
    shown = found.as_dict()
    return ExperimentEstimates(
        name=name,
        method=found.method,
        outcomes=found.outcomes,
        alpha=found.alpha,
        decisions=found.decisions,
        used=found.used,
        waiting=found.waiting,
        verdict=found.verdict,
        leader=found.leader,
        rival=found.rival,
        winner=found.winner,
        p_value=found.p_value,
        candidates=list(found.candidates),
        average=found.average,  # type: ignore[arg-type]
        progress=found.progress,
        named=None if found.named is None else NamedArm(*found.named),
        more=None if found.more is None else DecisionRange(*found.more),
        days=None if found.days is None else DayRange(*found.days),
        movement=None if shown["movement"] is None else LevelMovement(**shown["movement"]),
        arms=[ArmMean(arm, decisions, outcomes, _range(mean)) for arm, decisions, outcomes, mean in found.arms],
        control=found.control,
        differences=[ArmDifference(arm, other, _range(each)) for arm, other, each in found.differences],
        uplift=None if found.uplift is None else _range(found.uplift),
        uplift_to_control=None if found.uplift_to_control is None else _range(found.uplift_to_control),
        assumptions=list(found.assumptions),
        notes=list(found.notes),
    )


class ArmCourse(msgspec.Struct):
    """What was known of an arm along the way; None where it was not there yet."""

    arm: str | int
    means: list[float | None]
    lows: list[float | None]
    highs: list[float | None]


class ExperimentCourse(msgspec.Struct):
    """What was known of an experiment's arms along the way."""

    decisions: list[int]
    arms: list[ArmCourse]
    winner: str | int | None
    known_at: int | None


class WaitsFor(msgspec.Struct):
    """The decision whose outcome holds up the verdict on all later ones."""

    round: int
    id: str | None
    at: float
    """When it was made, in seconds since 1970."""


class Known(msgspec.Struct):
    """What pages show of what is known."""

    estimates: ExperimentEstimates
    answer: Answer
    course: ExperimentCourse | None
    waits_for: WaitsFor | None


def course(found: Course) -> ExperimentCourse:
    """Return what was known along the way as it is shown."""
    arms = [
        ArmCourse(label, *(_column(numbers[:, k].tolist()) for numbers in (found.means, found.lows, found.highs)))
        for k, label in enumerate(found.labels)
    ]
    return ExperimentCourse(found.decisions.tolist(), arms, found.winner, found.known_at)


def _column(numbers: list[float]) -> list[float | None]:
    """Return numbers with as many digits as a chart needs."""
    return [None if math.isnan(number) else float(f"{number:.5g}") for number in numbers]


def _range(estimate: Estimate) -> Range:
    return Range(None if math.isnan(estimate.value) else estimate.value, estimate.low, estimate.high)


def summary(outline: Outline) -> Summary:
    return Summary(
        outline.name,
        _status(outline.status),
        when(outline.created),
        outline.learner or "",
        outline.arms,
        outline.rounds,
        outline.events,
    )


def unwrap(answer: Any) -> Any:
    """Return an answer that is not a refusal."""
    if isinstance(answer, Refused):
        raise ApiError(answer.code, answer.message, answer.field)
    return answer


def _status(status: Any) -> Any:
    return status.name.lower()


def _quantiles(sizes: Sizes, unit: int) -> Quantiles:
    values = (sizes.quantile(share) for share in (0.5, 0.9, 0.99))
    return Quantiles(*(None if value is None else value / unit for value in values))
