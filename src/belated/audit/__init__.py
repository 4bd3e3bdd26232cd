"""Whether a run kept the promises of the paper's proof: every lemma that can be computed, measured.

audit.run("robust", "stochastic:arms=10,gap=0.1", "pareto:shape=1,scale=10", rounds=100_000)
audit.check(trace, delay_constant=49.0)
audit.split("hybrid", "stochastic:arms=10,gap=0.1", "pareto:shape=1,scale=10", rounds=20_000)
"""

from belated.audit.audit import Audit, Finding, check, run
from belated.audit.rearrangement import rearrange
from belated.audit.split import Split, split

__all__ = ["Audit", "Finding", "Split", "check", "rearrange", "run", "split"]
