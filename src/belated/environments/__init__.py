"""What generates losses. Oblivious, as in the paper: losses do not depend on what was played.

An environment fills chunks: for an array of round numbers it returns the expected losses of every arm and, unless
they are coins (`belated.core.random`), the losses. All learners of one replication meet the same. To add one, subclass
`Environment`: the class is then known by its name in small letters on the command line and in TOML files.
"""

from belated.environments.adversarial import Blocks, Constrained, Corrupted, Drifting, Resonant, Rhythm, Switching
from belated.environments.arms import Arms
from belated.environments.environment import Environment, Filled, FillsLosses, Floats, Rounds, Stretch, check_arms
from belated.environments.public import Public
from belated.environments.resampled import Resampled
from belated.environments.stochastic import Bernoulli, Beta, Recorded, Revenue, Stochastic

__all__ = [
    "Arms",
    "Bernoulli",
    "Beta",
    "Blocks",
    "Constrained",
    "Corrupted",
    "Drifting",
    "Environment",
    "Filled",
    "FillsLosses",
    "Floats",
    "Public",
    "Recorded",
    "Resampled",
    "Resonant",
    "Revenue",
    "Rhythm",
    "Rounds",
    "Stochastic",
    "Stretch",
    "Switching",
    "check_arms",
]
