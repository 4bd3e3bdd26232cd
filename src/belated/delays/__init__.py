"""What generates delays: how many rounds an outcome takes. 0 is before the next decision; NEVER does not come at all.

Delays fill chunks, as environments do. To add a law, subclass `Delays`: the class is then known by its name in small
letters on the command line and in TOML files.
"""

from belated.delays.dependent import ByArm, ByLoss
from belated.delays.law import NEVER, Delays, FillsDelays, whole
from belated.delays.own import Own, delays_for
from belated.delays.plain import Batches, Constant, Geometric, Never, NoDelay, Pareto, Uniform
from belated.delays.recorded import Empirical, Recorded
from belated.delays.spoiled import Burst, Dropout, Outlier

__all__ = [
    "NEVER",
    "Batches",
    "Burst",
    "ByArm",
    "ByLoss",
    "Constant",
    "Delays",
    "Dropout",
    "Empirical",
    "FillsDelays",
    "Geometric",
    "Never",
    "NoDelay",
    "Outlier",
    "Own",
    "Pareto",
    "Recorded",
    "Uniform",
    "delays_for",
    "whole",
]
