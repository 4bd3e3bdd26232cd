"""Experiments as the service shows them."""

import math
from typing import Any

from belated.api.types import ArmState, DelayQuantiles, Experiment, OutcomeCounts, Quantiles, Summary
from belated.ledger.commands import Refused, View
from belated.ledger.delay_histogram import Sizes
from belated.ledger.events import SECOND, ExperimentRecord, Fate, when
from belated.service.errors import ApiError


def experiment(answer: Any) -> Experiment:
    """Return the state of an experiment, from the answer of a command."""
    view = unwrap(answer)
    assert isinstance(view, View)
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
        warnings=list(bandit.warnings),
        outcomes=OutcomeCounts(
            used=state.fates[Fate.USED],
            skipped=state.fates[Fate.SKIPPED] + state.fates[Fate.LATE],
            defaults=state.defaults,
            held=state.held,
        ),
        delays=DelayQuantiles(_quantiles(state.delays_rounds, 1), _quantiles(state.delays_seconds, SECOND)),
        arms=[
            ArmState(arm, probability, decisions, outcomes, loss / outcomes if outcomes else None)
            for arm, probability, decisions, outcomes, loss in zip(
                settings.arms, bandit.distribution.tolist(), state.decisions, state.outcomes, state.losses, strict=True
            )
        ],
        events=state.position,
    )


def experiment_with_digest(answer: Any) -> Experiment:
    """Return the same, with a digest of everything that the worker knows of the experiment."""
    shown = experiment(answer)
    shown.digest = answer.state.digest()
    return shown


def summary(record: ExperimentRecord) -> Summary:
    settings = record.settings
    return Summary(
        settings.name,
        _status(record.status),
        when(record.created),
        settings.learner,
        len(settings.arms),
        record.rounds,
        record.events,
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
