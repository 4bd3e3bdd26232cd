"""Limits of the shares of arms: a floor, a ceiling or a fixed share for some, and a share that plays uniformly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from belated.errors import InvalidValue, check_share, unknown
from belated.live.labels import Arm

_ROUNDING = 1e-12
"""By how much sums of shares may miss 1."""


class Bounds(NamedTuple):
    """Limits as they are put on a learner's distribution: after them, uniform play is mixed in."""

    uniform: float
    """The part of uniform play in the probability of each arm."""
    lows: list[float]
    highs: list[float]
    """For the learner's part, each in units of all of it; empty where nothing is limited."""


@dataclass(frozen=True)
class Limits:
    """How much of the traffic arms may have, whatever the learner makes of them.

    An arm is chosen with the probability h / K + (1 - h) y_i, h being the holdout and y the distribution nearest to the
    learner's (in relative entropy) at which every arm is within its limits. Those are of the whole probability of the
    arm, its part of the holdout included.

    >>> limits = Limits({"old": 0.2, "new": (0.05, 0.5)}, holdout=0.1)
    >>> limits.floor("new"), limits.ceiling("new"), limits.floor("old"), limits.ceiling("old")
    (0.05, 0.5, 0.2, 0.2)
    """

    shares: Mapping[Arm, float | tuple[float, float]] = field(default_factory=dict)
    """For each arm that is limited: its share, for a control, or (floor, ceiling)."""
    holdout: float = 0.0
    """The share of decisions that play all arms uniformly, so that every arm goes on being measured."""

    def __post_init__(self) -> None:
        checked: dict[Arm, float | tuple[float, float]] = {}
        for arm, share in self.shares.items():
            low, high = share if isinstance(share, tuple | list) and len(share) == 2 else (share, share)
            low, high = check_share(f"floor of {arm!r}", low), check_share(f"ceiling of {arm!r}", high)
            if low > high:
                raise InvalidValue(f"the floor of {arm!r} is {low:g}, above its ceiling {high:g}", "shares")
            checked[arm] = low if low == high else (low, high)
        object.__setattr__(self, "shares", checked)
        object.__setattr__(self, "holdout", check_share("holdout", self.holdout))

    def __bool__(self) -> bool:
        return bool(self.shares) or self.holdout > 0.0

    def floor(self, arm: Arm) -> float:
        share = self.shares.get(arm, 0.0)
        return share[0] if isinstance(share, tuple) else share

    def ceiling(self, arm: Arm) -> float:
        share = self.shares.get(arm, 1.0)
        return share[1] if isinstance(share, tuple) else share

    def guaranteed(self, arms: Sequence[Arm], share_floor: float = 0.0) -> list[float]:
        """Return the least probability of each of these arms, the ones that are played."""
        uniform = share_floor or self.holdout / len(arms)
        return [max(self.floor(arm), uniform) for arm in arms]

    def check_arms(self, arms: Sequence[Arm]) -> None:
        """Refuse limits of arms that there have never been."""
        for arm in self.shares:
            if arm not in arms:
                raise unknown("arm", arm, [str(each) for each in arms], "shares")

    def bounds(self, arms: Sequence[Arm], share_floor: float = 0.0) -> Bounds:
        """Return the limits for these arms, the ones that are played; refuse what they cannot keep together.

        share_floor is the least share of every arm by another setting: uniform play with K times that probability.
        """
        if share_floor and self.holdout:
            raise InvalidValue(
                f"share_floor is {share_floor:g} and holdout is {self.holdout:g}; both are uniform play: one of them"
                " is needed",
                "holdout",
            )
        uniform = share_floor or self.holdout / len(arms)
        lows, highs = [self.floor(arm) for arm in arms], [self.ceiling(arm) for arm in arms]
        if sum(lows) > 1.0 + _ROUNDING:
            raise InvalidValue(f"the floors of the arms sum to {sum(lows):g}; at most 1 is possible", "shares")
        if sum(highs) < 1.0 - _ROUNDING:
            raise InvalidValue(f"the ceilings of the arms sum to {sum(highs):g}; at least 1 is needed", "shares")
        for arm, high in zip(arms, highs, strict=True):
            if high < uniform - _ROUNDING:
                raise InvalidValue(
                    f"arm {arm!r} may have a share of {high:g} at most, but uniform play alone gives it {uniform:g}",
                    "shares",
                )
        rest = 1.0 - uniform * len(arms)
        if not self.shares or rest <= _ROUNDING:
            return Bounds(uniform, [], [])
        floors = [min(max((low - uniform) / rest, 0.0), 1.0) for low in lows]
        ceilings = [min(max((high - uniform) / rest, 0.0), 1.0) for high in highs]
        return Bounds(uniform, floors, ceilings)
