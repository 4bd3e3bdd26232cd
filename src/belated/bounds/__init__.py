"""What theory says about a problem, as numbers: every regret bound of the paper's table, and what it is made of.

instance = Instance(10, delays, gaps=[0.1] * 9)
for bound in table(instance): ...
"""

from belated.bounds.bounds import Bound, Fact, facts, robust_bound, table
from belated.bounds.instance import BestSkipping, Instance, best_skipping, scale
from belated.bounds.waiting import Waiting, follow

__all__ = [
    "BestSkipping",
    "Bound",
    "Fact",
    "Instance",
    "Waiting",
    "best_skipping",
    "facts",
    "follow",
    "robust_bound",
    "scale",
    "table",
]
