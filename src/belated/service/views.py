"""Experiments as the service shows them."""

import math
from typing import Any

from belated.ledger.book import Refused, View
from belated.ledger.delays import Sizes
from belated.ledger.events import SECOND, Fate, Record, when
from belated.service.problems import Refusal
from belated.wire import ArmState, Delays, Experiment, Outcomes, Quantiles, Summary


def experiment(answer: Any) -> Experiment:
    """The state of an experiment, from the answer of a book."""
    view = granted(answer)
    assert isinstance(view, View)
    settings, fold = view.record.settings, view.fold
    bandit = fold.bandit
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
        outcomes=Outcomes(
            used=fold.fates[Fate.USED], skipped=fold.fates[Fate.SKIPPED] + fold.fates[Fate.LATE], defaults=fold.defaults
        ),
        delays=Delays(_quantiles(fold.delays_rounds, 1), _quantiles(fold.delays_seconds, SECOND)),
        arms=[
            ArmState(arm, probability, decisions, outcomes, loss / outcomes if outcomes else None)
            for arm, probability, decisions, outcomes, loss in zip(
                settings.arms, bandit.distribution.tolist(), fold.decisions, fold.outcomes, fold.losses, strict=True
            )
        ],
        events=fold.position,
    )


def experiment_with_digest(answer: Any) -> Experiment:
    """The same, with a digest of everything that the worker knows of it."""
    shown = experiment(answer)
    shown.digest = answer.fold.digest()
    return shown


def summary(record: Record) -> Summary:
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


def granted(answer: Any) -> Any:
    """An answer that is not a refusal."""
    if isinstance(answer, Refused):
        raise Refusal(answer.code, answer.message, answer.field)
    return answer


def _status(status: Any) -> Any:
    return status.name.lower()


def _quantiles(sizes: Sizes, unit: int) -> Quantiles:
    values = (sizes.quantile(share) for share in (0.5, 0.9, 0.99))
    return Quantiles(*(None if value is None else value / unit for value in values))
