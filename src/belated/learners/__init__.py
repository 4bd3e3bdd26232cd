"""The catalogue of learners, one file each.

>>> from belated import learners
>>> "robust" in learners.catalogue
True
>>> learners.find("damped").needs
('longest_delay',)
"""

from collections.abc import Mapping
from types import MappingProxyType

from belated import specs
from belated.errors import unknown
from belated.learners import (
    balanced,
    bold,
    damped,
    elimination,
    epsilon_greedy,
    ewma,
    exp3,
    exp3_adaptive,
    exp3_delayed,
    exp3_drift,
    exp3_dropping,
    exp3_fixed,
    exp3_ix,
    hybrid,
    hybrid_skipping,
    klucb,
    patient,
    queued,
    robust,
    sapo,
    thompson,
    tsallis,
    tsallis_rv,
    ucb,
    uniform,
)
from belated.learners.learner import Learner, Parameter, TunedLearner, Value
from belated.learners.plain import PlainLearner
from belated.learners.published import published

__all__ = ["Learner", "Parameter", "PlainLearner", "TunedLearner", "Value", "catalogue", "find", "published", "tune"]

_FAMILIES = (
    (balanced, robust, hybrid, hybrid_skipping, damped, sapo),
    (tsallis, tsallis_rv, bold),
    (exp3, exp3_ix, exp3_fixed, exp3_delayed, exp3_dropping, exp3_adaptive, exp3_drift),
    (ucb, queued, klucb, thompson, elimination, patient),
    (epsilon_greedy, ewma, uniform),
)

catalogue: Mapping[str, Learner] = MappingProxyType(
    {module.LEARNER.name: module.LEARNER for family in _FAMILIES for module in family}
)


def find(name: str) -> Learner:
    """The learner of that name."""
    if name not in catalogue:
        raise unknown("learner", name, catalogue)
    return catalogue[name]


def tune(learner: "str | Learner | TunedLearner", **values: Value) -> TunedLearner:
    """A learner with its parameters set, from a name, from words such as `robust:delay_constant=1`, or from itself."""
    if isinstance(learner, TunedLearner):
        if not values:
            return learner
        return learner.learner.with_parameters(**{**learner.values, **values})
    if isinstance(learner, Learner):
        return learner.with_parameters(**values)
    if not isinstance(learner, str):
        raise ValueError(
            f"learner is {learner!r}; a name, words such as 'robust:delay_constant=1' or a Learner is needed"
        )
    name, settings = specs.parse(learner)
    return find(name).with_parameters(**{**settings, **values})
