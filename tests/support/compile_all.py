"""Compile every kernel once, on two processes, before tests that run side by side would each compile the same.

PYTHONPATH=tests python -m support.compile_all
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

PROCESSES = 2


def compile_part(part: int) -> int:
    """Compile a part of the catalogue, and the loop or the live rounds; return how many learners."""
    from belated import Bandit, learners, simulate
    from belated.core.capital import compiled as compile_capital
    from belated.simulation.replication import compile_for

    mine = [learners.tune(name) for name in list(learners.catalogue)[part::PROCESSES]]
    if part == 0:
        Bandit(2, "uniform").decide()
        compile_capital()
    else:
        simulate("uniform", "stochastic:arms=2", rounds=2, replications=1, progress=False)
    compile_for(mine)
    return len(mine)


if __name__ == "__main__":
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        print(f"compiled {sum(pool.map(compile_part, range(PROCESSES)))} learners", file=sys.stderr)
