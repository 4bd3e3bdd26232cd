"""Live: a bandit that decides now and hears of outcomes whenever they come."""

from belated.live.bandit import Bandit
from belated.live.decisions import Decision, Receipt
from belated.live.limits import Limits
from belated.logs.scale import Scale

__all__ = ["Bandit", "Decision", "Limits", "Receipt", "Scale"]
