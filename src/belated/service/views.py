"""Experiments as the service shows them."""

import math
from typing import Any

from msgspec import UNSET

from belated.api.types import ArmState, DelayQuantiles, Experiment, OutcomeCounts, Quantiles, Summary
from belated.ledger.base import Outline
from belated.ledger.commands import Refused, View
from belated.ledger.delay_histogram import Sizes
from belated.ledger.events import SECOND, Fate, when
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
        digest=state.digest() if digest else UNSET,
    )


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
