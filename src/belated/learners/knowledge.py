"""What learners can be told about a problem: one parameter for each fact, shared by all learners.

Live, the caller gives the value. In simulations `belated.simulation.oracle` computes it for the learners that need it.
"""

from dataclasses import replace

from belated.learners.learner import KNOWN, UNKNOWN, Parameter

_MOST = 1e15

HORIZON = Parameter("horizon", KNOWN, 2.0, _MOST, "T, the number of rounds")
LONGEST_DELAY = Parameter("longest_delay", KNOWN, 0.0, _MOST, "d_max, the longest delay")
TOTAL_DELAY = Parameter("total_delay", KNOWN, 0.0, _MOST**2, "D, the sum of all delays")
TAIL_INDEX = Parameter("tail_index", KNOWN, 0.0, float("inf"), "alpha, where P(delay > n) falls like n^-alpha")


def optional(parameter: Parameter, otherwise: str) -> Parameter:
    """Return the same parameter for a learner that can do without it."""
    return replace(parameter, default=UNKNOWN, summary=f"{parameter.summary}; unknown: {otherwise}")
