"""The league: learners compared on named problems.

`suite` has the problems, `play` plays them, `rank` ranks the learners.
"""

from belated.league import suite
from belated.league.comparison import Comparison, ComparisonPlan, compare
from belated.league.league import play
from belated.league.plan import League, LeaguePlan, can_play, competitors
from belated.league.standings import FamilyStanding, Standing, rank, ratios
from belated.league.store import read
from belated.league.suite import Cell

__all__ = [
    "Cell",
    "Comparison",
    "ComparisonPlan",
    "FamilyStanding",
    "League",
    "LeaguePlan",
    "Standing",
    "can_play",
    "compare",
    "competitors",
    "play",
    "rank",
    "ratios",
    "read",
    "suite",
]
