"""What belated costs, each figure a ratio or a difference taken in one run. `make bench`, or with names: bench.py
bulk live. `outstanding` takes long and is done by name only; outstanding=100000 takes fewer decisions.

Timings that are compared are taken in turns, many times over, and compared by their medians, so that a machine that is
busy with other things now and then slows both sides alike.
"""

import json
import platform
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import bench_league
import bench_logs
import bench_outstanding
import bench_pages
import bench_readers
import bench_service
import bench_theory
import numpy as np
from baselines import numpy_tsallis_inf, plain_ucb1

from belated import Bandit, Decision, learners, simulate
from belated.inference import Log, estimates
from belated.inference.stream import stream_of

ARMS, DELAY = 10, 100
ENVIRONMENT = f"stochastic:arms={ARMS},gap=0.1"
DELAYS = f"constant:delay={DELAY}"

Row = tuple[str, str, str, bool | None]


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turns(times: int, **works: Callable[[], object]) -> dict[str, float]:
    """The median seconds of each piece of work, done in turns; once before, unmeasured."""
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            taken[name].append(timed(work))
    return {name: statistics.median(each) for name, each in taken.items()}


def play(learner: str, rounds: int, environment: str = ENVIRONMENT, delays: str = DELAYS) -> Callable[[], object]:
    return lambda: simulate([learner], environment, delays, rounds=rounds, replications=1, threads=1, progress=False)


def losses(rounds: int) -> np.ndarray:
    means = np.full(ARMS, 0.55)
    means[0] = 0.45
    return (np.random.default_rng(0).random((rounds, ARMS)) < means).astype(float)


def at_least(measured: float, target: float) -> tuple[str, str, bool]:
    return f"{measured:.1f}", f"at least {target:g}", measured >= target


def at_most(measured: float, target: float, unit: str = "") -> tuple[str, str, bool]:
    return f"{measured:.2f}{unit}", f"at most {target:g}{unit}", measured <= target


def bulk() -> list[Row]:
    """Rounds a second of the bulk loop against loops written by hand."""
    table = losses(20_000)
    rewards = (1.0 - table).tolist()
    seconds = in_turns(
        15,
        robust=play("robust", 1_000_000),
        ucb=lambda: plain_ucb1(rewards, DELAY),
        tsallis=lambda: numpy_tsallis_inf(table[:3000], DELAY, 0),
    )
    robust, ucb, tsallis = seconds["robust"] / 1_000_000, seconds["ucb"] / 20_000, seconds["tsallis"] / 3000
    return [
        ("bulk: robust, K = 10, delay 100, environment included", f"{robust * 1e9:.0f} ns a round", "", None),
        ("bulk: times as fast as UCB1 in plain Python", *at_least(ucb / robust, 20)),
        (f"      ({ucb * 1e9:.0f} ns a round); our aim", *at_least(ucb / robust, 40)),
        ("bulk: times as fast as Tsallis-INF in numpy", *at_least(tsallis / robust, 200)),
        (f"      ({tsallis * 1e9:.0f} ns a round); our aim", *at_least(tsallis / robust, 400)),
    ]


def catalogue() -> list[Row]:
    """Every learner's price."""
    seconds = in_turns(5, **{name: play(name, 300_000) for name in learners.catalogue})
    return [
        (f"bulk: {name}, K = 10, delay 100", f"{each / 300_000 * 1e9:.0f} ns a round", "", None)
        for name, each in seconds.items()
    ]


def scaling() -> list[Row]:
    """More rounds and more arms."""
    # beyond the first 100,000 rounds, in which robust waits in vain, so that both lengths do the same work a round
    constant = "robust:delay_constant=1"
    seconds = in_turns(3, short=play(constant, 100_000), long=play(constant, 10_000_000))
    rounds = (seconds["long"] / 10_000_000) / (seconds["short"] / 100_000)
    paper = in_turns(3, short=play("robust", 100_000), long=play("robust", 10_000_000))
    rounds_paper = (paper["long"] / 10_000_000) / (paper["short"] / 100_000)
    arms = in_turns(9, ten=play("robust", 200_000), hundred=play("robust", 200_000, "stochastic:arms=100,gap=0.1"))
    return [
        ("scaling: cost of a round at 10^7 rounds against 10^5", *at_most(rounds_paper, 1.15)),
        ("         the same with delay_constant = 1", *at_most(rounds, 1.15)),
        ("scaling: cost of a round with 100 arms against 10", *at_most(arms["hundred"] / arms["ten"], 8)),
    ]


MEMORY = """
import resource, sys
from pathlib import Path
from belated import simulate
simulate(["robust"], "stochastic:arms=10,gap=0.1", sys.argv[1], rounds=int(sys.argv[2]), replications=1, threads=1)
if Path("/proc/self/status").exists():  # getrusage would count the process that this one was forked from
    print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def peak_memory(delays: str, rounds: int) -> float:
    """Megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, delays, str(rounds)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def memory() -> list[Row]:
    """A hundred times as many rounds."""
    rows: list[Row] = []
    for delays in ("pareto:shape=1,scale=10", "dropout:share=0.1,others=20"):
        peak_memory(delays, 1000)  # once before, so that nothing is compiled
        short, long = peak_memory(delays, 10**6), peak_memory(delays, 10**8)
        what = f"memory: peak at 10^8 rounds ({long:.0f} MB) over that at 10^6, {delays}"
        rows.append((what, *at_most(long - short, 50, " MB")))
    return rows


def live() -> list[Row]:
    """decide + observe of the default learner against choose + update."""
    rewards = (1.0 - losses(20_000)).tolist()

    def at_once() -> None:
        bandit = Bandit(ARMS, seed=0)
        decide, observe = bandit.decide, bandit.observe
        for row in rewards:
            decision = decide()
            observe(decision, reward=row[decision.arm])

    def late() -> None:
        bandit = Bandit(ARMS, seed=0)
        decide, observe = bandit.decide, bandit.observe
        waiting: deque[tuple[Decision, float]] = deque()
        for row in rewards:
            decision = decide()
            waiting.append((decision, row[decision.arm]))
            if len(waiting) > DELAY:
                decision, reward = waiting.popleft()
                observe(decision, reward=reward)

    seconds = in_turns(15, at_once=at_once, late=late, ucb=lambda: plain_ucb1(rewards, DELAY))
    return [
        (
            f"live: decide + observe ({seconds['at_once'] / 20_000 * 1e6:.2f} µs) as fast as plain UCB1, times",
            *at_least(seconds["ucb"] / seconds["at_once"], 1),
        ),
        (
            f"live: the same with delay 100 ({seconds['late'] / 20_000 * 1e6:.2f} µs), times",
            *at_least(seconds["ucb"] / seconds["late"], 1),
        ),
    ]


def start() -> list[Row]:
    """Importing, asking for help, deciding for the first time: fresh processes, warm caches."""
    inside = "import time; begun = time.perf_counter(); {}; print(time.perf_counter() - begun)"

    def process(code: str) -> float:
        done = subprocess.run([sys.executable, "-c", inside.format(code)], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    def median(measure: Callable[[], float]) -> float:
        return statistics.median(measure() for _ in range(7))

    script = Path(sys.executable).parent / "belated"
    help_seconds = median(lambda: timed(lambda: subprocess.run([script, "--help"], capture_output=True, check=True)))
    imported = median(lambda: process("import belated"))
    decided = median(lambda: process("import belated; belated.Bandit(3).decide()"))
    return [
        ("start: import belated", *at_most(imported * 1000, 150, " ms")),
        ("start: belated --help", *at_most(help_seconds * 1000, 300, " ms")),
        ("start: first decide() in a fresh process", *at_most(decided, 2, " s")),
    ]


def inference() -> list[Row]:
    """A million outcomes of three arms, and the estimates from them; reading rewards alone is the scale."""
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 3, 10**6)
    rewards = (rng.random(10**6) < np.array([0.01, 0.012, 0.009])[arms]).astype(np.float64)
    log = Log(("a", "b", "c"), arms, rewards, np.full(10**6, 1 / 3))
    few = log.until(10_000)
    streamed = statistics.median(timed(lambda: stream_of(log)) for _ in range(5))
    estimated = statistics.median(timed(lambda: estimates(few, control="a")) for _ in range(5))
    return [
        ("inference: a million outcomes of three arms", *at_most(streamed, 2, " s")),
        ("inference: estimates of 10,000 outcomes, three arms", *at_most(1000 * estimated, 500, " ms")),
    ]


SECTIONS: dict[str, Callable[[], list[Row]]] = {
    "bulk": bulk,
    "catalogue": catalogue,
    "scaling": scaling,
    "live": live,
    "start": start,
    "inference": inference,
    "logs": bench_logs.rows,
    "memory": memory,
    "league": bench_league.rows,
    "theory": bench_theory.rows,
    "service": bench_service.rows,
    "readers": bench_readers.rows,
    "pages": bench_pages.rows,
}
BY_NAME: dict[str, Callable[[int], list[Row]]] = {"outstanding": bench_outstanding.rows}
"""With a number: outstanding=100000."""


def section(name: str) -> Callable[[], list[Row]]:
    """What a name of the command line stands for."""
    word, _, number = name.partition("=")
    if word in BY_NAME and (number.isdigit() or name == word):
        return lambda: BY_NAME[word](int(number or bench_outstanding.DECISIONS))
    if name not in SECTIONS:
        sys.exit(f"bench: unknown {name}; allowed is {', '.join([*SECTIONS, *BY_NAME])}, or outstanding=NUMBER")
    return SECTIONS[name]


def main(names: list[str]) -> None:
    sections = [section(name) for name in names or SECTIONS]
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    results = []
    for measure in sections:
        for what, measured, target, met in measure():
            verdict = "" if met is None else "met" if met else "MISSED"
            print(f"{what:<88} {measured:>14}  {target:<16} {verdict}", flush=True)
            results.append({"what": what.strip(), "measured": measured, "target": target, "met": met})
    folder = Path("results")
    folder.mkdir(exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
