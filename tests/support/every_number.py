"""Numbers of every learner, live, in bulk and on a log: the same whether they come of compiled code or of plain Python.

python -m support.every_number FILE
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import Bandit, learners, simulate
from belated.core import kernels
from belated.simulation import replay
from belated.simulation.rejection import LoggedRows, Rejection
from support.play_live import VARIANTS, informed, play_live

ROUNDS, ARMS = 150, 4
LAWS: dict[str, list[int | None]] = {
    "mixed": [None if t % 7 == 0 else (t * t) % 13 for t in range(ROUNDS)],
    "outlier": [None] + [0] * (ROUNDS - 1),
}
SIMULATED = [
    ("stochastic:arms=3,gap=0.2", "pareto:shape=1,scale=2"),
    ("constrained:arms=3,gap=0.2", "byarm:laws=[0,4,9]"),
    ("stochastic:arms=3,gap=0.2", "byloss:good=4,bad=0"),
]
LEARNERS = [*learners.catalogue, *VARIANTS, "robust:delay_constant=0.05"]


def numbers() -> dict[str, NDArray[Any]]:
    """Return the numbers by name; distributions of live decisions must be those in bulk, bit for bit."""
    found: dict[str, NDArray[Any]] = {}
    rng = np.random.default_rng(1)
    losses, draws = rng.random((ROUNDS, ARMS)), rng.random(ROUNDS)
    for law, waits in LAWS.items():
        for name in LEARNERS:
            bulk = replay(informed(name), losses, waits, draws.tolist())
            if law == "mixed":
                live = play_live(Bandit(ARMS, informed(name)), losses, waits, draws.tolist())
                np.testing.assert_array_equal(live.distributions, bulk.distributions)
            found[f"{law}/{name}/distributions"] = bulk.distributions
            found[f"{law}/{name}/losses"] = bulk.loss_estimates
            found[f"{law}/{name}/arms"] = bulk.arms
            found[f"{law}/{name}/skipped"] = bulk.skipped
    for environment, delays in SIMULATED:
        result = simulate(["robust", "ucb"], environment, delays, rounds=200, replications=2, seed=3)
        found[f"{environment}/{delays}"] = result.regret
    return found | on_a_log()


def on_a_log() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(1)
    arms, losses = rng.integers(0, 3, 400), rng.random(400)
    delays = np.where(rng.random(400) < 0.1, 1 << 62, rng.integers(0, 9, 400))
    rows = LoggedRows(arms, losses, delays, np.array([0.5, 0.3, 0.2])[arms], rng.random(400), rng.random(400), 0.2)
    found: dict[str, NDArray[Any]] = {}
    for name in ("guarded", "thompson", "hybrid_skipping"):
        notes = Rejection(learners.tune(name), 3, 80).offer(rows)
        assert 40 < notes.accepted.max() < 120
        found |= {f"log/{name}/{field}": getattr(notes, field) for field in ("accepted", "weights", "baselines")}
    return found


if __name__ == "__main__":
    assert not kernels.COMPILED
    np.savez(sys.argv[1], **numbers())  # type: ignore[arg-type]
