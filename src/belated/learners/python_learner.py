"""Learners written in plain Python, for simulations.

    class Mine:
        def __init__(self, n_arms, rng): ...                     # rng: the same for the same seed
        def decide(self, outstanding): ...                       # -> probabilities, one for each arm
        def learn(self, arm, loss, propensity, round): ...       # an outcome of that round has arrived
        def patience(self): ...                                  # optional: rounds to wait, asked when a round opens

    simulate([PythonLearner("mine", Mine), "ucb"], ...)

The compiled loop cannot call Python. It calls a compiled stand-in, the mailbox below. The mailbox hands out the
distribution that was put in, and keeps the outcomes that arrive until they are taken out
(`belated.simulation.run.PythonLearnerRun`). This costs about ten microseconds a round.
"""

from collections.abc import Callable
from typing import Any

from belated.core import pages
from belated.core.kernels import Vector, kernel
from belated.learners.learner import Learner, Pages, TunedLearner, Value

ROUND = 0
PATIENCE = 1
OUTBOX = 2  # the two ends of the list of outcomes that have arrived
HEAD = 4  # of the pages, one for each decision
FIRST_P = HEAD + pages.HEAD_FIELDS  # the distribution of the round to come

ARM = 1  # on a page, behind the link
LOSS = 2
PROPENSITY = 3
NUMBER = 4
PAGE_SIZE = 5


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[ROUND] += 1.0
    for i in range(p.size):
        p[i] = state[FIRST_P + i]
    page = pages.take(state, HEAD)
    state[pages.begin(state, HEAD, page) + NUMBER] = state[ROUND]
    return float(page)


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    page = int(mark)
    place = pages.begin(state, HEAD, page)
    state[place + ARM] = arm
    state[place + LOSS] = loss
    state[place + PROPENSITY] = propensity
    pages.append(state, HEAD, OUTBOX, page)


@kernel
def patience(state: Vector, params: Vector) -> float:
    return state[PATIENCE]


@kernel
def forget(state: Vector, params: Vector, mark: float) -> None:
    pages.give_back(state, HEAD, int(mark))


def size(n_arms: int) -> int:
    return FIRST_P + n_arms


def page_size(n_arms: int) -> int:
    return PAGE_SIZE


def _mailbox(name: str, waits: bool) -> Learner:
    return Learner(
        name=name,
        summary="a stand-in for a learner written in plain Python",
        paper="none",
        size=size,
        decide=decide,
        learn=learn,
        patience=patience if waits else None,
        forget=forget,
        pages=Pages(HEAD, page_size),
    )


class PythonLearner(TunedLearner):
    """A learner written in plain Python, with a name; `make(n_arms, rng)` is called once for each replication."""

    def __init__(self, name: str, make: Callable[..., Any], settled: Value = 0, share_floor: Value = 0.0) -> None:
        for method in ("decide", "learn"):
            if isinstance(make, type) and not callable(getattr(make, method, None)):
                raise ValueError(
                    f"{make.__name__} has no method {method}; decide(outstanding) and learn(arm, loss,"
                    " propensity, round) are needed"
                )
        mailbox = _mailbox(name, callable(getattr(make, "patience", None)))
        tuned = mailbox.with_parameters(settled=settled, share_floor=share_floor)
        super().__init__(mailbox, {}, tuned.settled, tuned.share_floor)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "make", make)

    name: str
    make: Callable[..., Any]

    def with_parameters(self, **values: Value) -> TunedLearner:
        tuned = super().with_parameters(**values)
        return PythonLearner(self.name, self.make, tuned.settled, tuned.share_floor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonLearner) and (self.label, self.make) == (other.label, other.make)

    def __hash__(self) -> int:
        return hash((self.label, self.make))
