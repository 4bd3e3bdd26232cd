"""The catalogue of learners, one file each.

>>> from belated import learners
>>> sorted(learners.catalogue)
['exp3', 'robust', 'tsallis', 'ucb', 'uniform']
>>> learners.find("robust").parameters[0].default
49.0
"""

from collections.abc import Mapping
from types import MappingProxyType

from belated import specs
from belated.errors import unknown
from belated.learners import exp3, robust, tsallis, ucb, uniform
from belated.learners.learner import Learner, Parameter, TunedLearner

__all__ = ["Learner", "Parameter", "TunedLearner", "catalogue", "find", "tune"]

catalogue: Mapping[str, Learner] = MappingProxyType(
    {module.LEARNER.name: module.LEARNER for module in (robust, ucb, tsallis, exp3, uniform)}
)


def find(name: str) -> Learner:
    """The learner of that name."""
    if name not in catalogue:
        raise unknown("learner", name, catalogue)
    return catalogue[name]


def tune(learner: "str | Learner | TunedLearner", **values: float) -> TunedLearner:
    """A learner with its parameters set, from a name, from words such as `robust:delay_constant=1`, or from itself."""
    if isinstance(learner, TunedLearner):
        return learner.learner.with_parameters(**{**learner.values, **values})
    if isinstance(learner, Learner):
        return learner.with_parameters(**values)
    if not isinstance(learner, str):
        raise ValueError(
            f"learner is {learner!r}; a name, words such as 'robust:delay_constant=1' or a Learner is needed"
        )
    name, settings = specs.parse(learner)
    return find(name).with_parameters(**{**settings, **values})
