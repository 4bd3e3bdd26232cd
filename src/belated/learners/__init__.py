"""The catalogue of learners, one file each.

>>> from belated import learners
>>> "robust" in learners.catalogue
True
>>> learners.find("damped").needs
('longest_delay',)
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from belated import specs
from belated.errors import InvalidValue, unknown
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
    guarded,
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
from belated.learners.learner import Gauge, Learner, Parameter, TunedLearner, Value
from belated.learners.published import published
from belated.learners.python_learner import PythonLearner

__all__ = [
    "Gauge",
    "Learner",
    "Parameter",
    "PythonLearner",
    "TunedLearner",
    "Value",
    "catalogue",
    "find",
    "published",
    "tune",
]

_FAMILIES = (
    (guarded, balanced, robust, hybrid, hybrid_skipping, damped, sapo),
    (tsallis, tsallis_rv, bold),
    (exp3, exp3_ix, exp3_fixed, exp3_delayed, exp3_dropping, exp3_adaptive, exp3_drift),
    (ucb, queued, klucb, thompson, elimination, patient),
    (epsilon_greedy, ewma, uniform),
)

catalogue: Mapping[str, Learner] = MappingProxyType(
    {module.LEARNER.name: module.LEARNER for family in _FAMILIES for module in family}
)


def find(name: str) -> Learner:
    """Return the learner of that name."""
    if name not in catalogue:
        raise unknown("learner", name, catalogue)
    return catalogue[name]


def tune(learner: "str | Mapping[str, Any] | Learner | TunedLearner", **values: Value) -> TunedLearner:
    """Return a learner with its parameters set.

    The learner is a spec such as `robust:delay_constant=1`, a table {name = "robust", delay_constant = 1}, a
    `module:NAME` for one of your own, or an object. Besides its parameters every learner takes `settled`, for
    simulations: it hears of the outcome of a decision only when the decision is at least so many rounds old. And
    `share_floor`, the least probability of every arm.

    >>> from belated import learners
    >>> learners.tune("thompson", settled=10_000).label
    'thompson:settled=10000'
    """
    if isinstance(learner, Mapping) and isinstance(learner.get("name"), str):
        return tune(learner["name"], **{key: value for key, value in learner.items() if key != "name"} | values)
    if isinstance(learner, str) and specs.is_reference(learner, catalogue):
        learner = _loaded(learner)
    if isinstance(learner, TunedLearner):
        return learner.with_parameters(**values) if values else learner
    if isinstance(learner, Learner):
        return learner.with_parameters(**values)
    if not isinstance(learner, str):
        raise InvalidValue(
            f"learner is {learner!r}; a spec such as 'robust:delay_constant=1', a table with a name, module:NAME or a"
            " Learner is needed",
            "learner",
        )
    name, settings = specs.parse(learner)
    return find(name).with_parameters(**{**settings, **values})


def _loaded(reference: str) -> "Learner | TunedLearner":
    """Return the learner that a `module:NAME` names: an object, or a class in plain Python."""
    thing = specs.load(reference, catalogue)
    if isinstance(thing, Learner | TunedLearner):
        return thing
    if isinstance(thing, type):
        return PythonLearner(reference.partition(":")[2], thing)
    raise InvalidValue(
        f"{reference!r} is {thing!r}; a Learner, a PythonLearner or a class with decide and learn is needed", "learner"
    )
