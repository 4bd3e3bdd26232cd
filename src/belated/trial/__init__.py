"""Short adaptive trials, simulated before they begin: what is gained over fixed randomisation, and what it costs.

>>> from belated import trial
>>> trial.design([0.3, 0.5], 60, simulations=10, stop="never").fixed.name
'fixed randomisation'
"""

from belated.trial.design import Design, design
from belated.trial.measures import Allocation, Analysis, Measures
from belated.trial.plan import Plan
from belated.trial.trials import Trials

__all__ = ["Allocation", "Analysis", "Design", "Measures", "Plan", "Trials", "design"]
