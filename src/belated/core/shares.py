"""From the learner's distribution to the one that an arm is drawn from: limits, a floor, the draw.

A run may limit the shares of arms. With a floor l_i and a ceiling h_i for each arm, the learner's p becomes

    p'_i = min(max(c p_i, l_i), h_i),       c such that the p'_i sum to 1.

This is the distribution within the limits that is nearest to p in relative entropy: arms that no limit touches keep
their proportions. Where the ceilings leave something over for arms with p_i = 0, those share it evenly.
"""

import math

from belated.core.kernels import Vector, kernel

_NOTHING = 1e-200  # a smaller probability counts as 0: its inverse must still be a number
_PLAYED = 1e18  # the weight of arms with p_i > 0 where the others share what is left, with the weight 1
_STEPS = 200


@kernel
def put_limits(p: Vector, params: Vector, place: int) -> None:
    """Bring p within limits: those of arm i are at `place` + i (the floor) and `place` + K + i (the ceiling)."""
    arms = p.size
    reach = 0.0
    inside = True
    for i in range(arms):
        low = params[place + i]
        high = params[place + arms + i]
        reach += high if p[i] > _NOTHING else low
        inside = inside and low <= p[i] <= high
    if inside:
        return
    if reach < 1.0:  # with all that the learner plays at the ceilings, something is left for the others
        for i in range(arms):
            p[i] = _PLAYED if p[i] > _NOTHING else 1.0
    scale = _scale(p, params, place)
    for i in range(arms):
        p[i] = min(max(scale * p[i], params[place + i]), params[place + arms + i])


@kernel
def _scale(p: Vector, params: Vector, place: int) -> float:
    """Return c. The sum is piecewise linear and increasing in c: Newton's steps, kept within a bracket, end at c."""
    arms = p.size
    least = 0.0
    most = 0.0
    for i in range(arms):
        if p[i] > _NOTHING:
            most = max(most, params[place + arms + i] / p[i])
    scale = min(1.0, most)
    for _ in range(_STEPS):
        limited = 0.0  # the sum of the shares at a limit
        free = 0.0  # the sum of p over the others
        for i in range(arms):
            share = scale * p[i]
            if share <= params[place + i]:
                limited += params[place + i]
            elif share >= params[place + arms + i]:
                limited += params[place + arms + i]
            else:
                free += p[i]
        miss = limited + scale * free - 1.0
        if miss == 0.0:
            break
        if miss > 0.0:
            most = scale
        else:
            least = scale
        following = (1.0 - limited) / free if free > 0.0 else -1.0
        if not least < following < most:
            if abs(miss) < 1e-15:
                break
            following = math.sqrt(least * most) if least > 0.0 else 0.5 * most
            if not least < following < most:
                break
        scale = following
    return scale


@kernel(inline=True)
def put_floor(p: Vector, floor: float) -> None:
    """Give every arm at least a share: p_i becomes floor + (1 - K floor) p_i, uniform play with probability K floor."""
    rest = 1.0 - p.size * floor  # at least 0 for every floor <= 1 / K, rounded as it is
    for i in range(p.size):
        p[i] = floor + rest * p[i]


@kernel(inline=True)
def draw_arm(p: Vector, draw: float) -> int:
    """Return the first arm i with draw < p_1 + ... + p_i, or the last with p_i > 0 where rounding leaves the sum below
    draw.

    Counted, not searched: a loop that ends at a random place costs more than its steps.
    """
    total = 0.0
    arm = 0
    for i in range(p.size):
        total += p[i]
        arm += draw >= total
    if arm == p.size:
        arm -= 1
        while p[arm] == 0.0:
            arm -= 1
    return arm
