"""Live: a bandit that decides now and hears of outcomes whenever they come."""

from belated.live.bandit import Bandit
from belated.live.decisions import Decision, Receipt

__all__ = ["Bandit", "Decision", "Receipt"]
