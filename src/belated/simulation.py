"""Regret experiments in bulk: one compiled loop for every learner, paired replications, all cores.

Every learner of a replication meets the same losses, delays and draws, in chunks, so that comparisons are paired and
generation is paid once. Memory is that of a chunk and of what is outstanding at most, whatever the number of
rounds. The random numbers of a replication come from (seed, replication), never from who computes it: one core and
many give the same numbers to the bit.

Replications run on threads: the loop and numpy's generators leave the GIL alone, so nothing is copied or pickled.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated import coins
from belated import learners as catalogue
from belated import rounds as protocol
from belated.calendar import new_calendar
from belated.delays import Delays
from belated.delays import Recorded as RecordedDelays
from belated.environments import Environment, Floats
from belated.environments import Recorded as RecordedLosses
from belated.errors import unknown
from belated.intervals import Interval, mean_interval
from belated.learners import Learner, TunedLearner
from belated.loop import ARM, OUTSTANDING, SKIPPED, compiled_play
from belated.progress import Progress

CHUNK = 1 << 20
"""Losses in a chunk, at most."""
CHUNK_ROUNDS = 1 << 14
"""Rounds in a chunk, at most: their draws and delays stay in a core's own cache."""
NO_LOSSES = np.empty((0, 0))


@dataclass(frozen=True)
class Trace:
    """What one learner did in one replication, round by round; index 0 is round 1."""

    arms: NDArray[np.int64]
    distributions: Floats
    """x_t, shape (rounds, arms)."""
    loss_estimates: Floats
    """L at the end of each round, shape (rounds, arms)."""
    outstanding: NDArray[np.int64]
    """sigma_t, counted when the round opens."""
    patience: Floats
    """At the end of each round; inf for learners that never skip."""
    skipped: NDArray[np.int64]
    """The round given up on at the end of each round, or 0."""


@dataclass(frozen=True)
class Simulation:
    """What came out of `simulate`. Arrays have shape (learners, replications, ...)."""

    learners: tuple[str, ...]
    environment: Environment
    delays: Delays
    seed: int
    checkpoints: NDArray[np.int64]
    """The rounds at which regret was noted, the last round among them."""
    regret: Floats
    """Pseudo-regret against the best fixed arm up to each checkpoint: (learners, replications, checkpoints)."""
    uniform_regret: Floats
    """That of uniform play, exactly, at each checkpoint: the scale of the problem. (replications, checkpoints)."""
    skipped: NDArray[np.int64]
    """Decisions given up on: (learners, replications)."""
    most_outstanding: NDArray[np.int64]
    """The largest number of decisions waited for at once: (learners, replications)."""
    traces: tuple[tuple[Trace, ...], ...] = ()
    """One for each learner and replication, where they were asked for."""

    def curve(self, learner: str) -> Interval:
        """Mean regret at each checkpoint, with its 95 % interval over replications."""
        return mean_interval(self.regret[self._index(learner)])

    def final(self, learner: str) -> Interval:
        """Mean regret at the last round, with its 95 % interval over replications."""
        return mean_interval(self.regret[self._index(learner), :, -1])

    def _index(self, learner: str) -> int:
        if learner not in self.learners:
            raise unknown("learner of this simulation", learner, self.learners)
        return self.learners.index(learner)


class _Player:
    """One learner in one replication."""

    def __init__(self, tuned: TunedLearner, n_arms: int, rounds: int, keep_trace: bool) -> None:
        learner = tuned.learner
        self.losses_at = learner.losses_at
        self.state = learner.new_state(n_arms)
        self.params = tuned.params
        self.p = np.zeros(n_arms)
        self.clock = protocol.new_clock(learner.addresses)
        self.memory = protocol.enlarge(self.clock, protocol.new_memory())
        self.calendar = new_calendar()
        self.paid = 0.0
        kept = rounds if keep_trace else 0
        self.trace = np.zeros((kept, 3), dtype=np.int64)
        self.trace_patience = np.zeros(kept)
        self.trace_p = np.zeros((kept, n_arms))
        self.trace_losses = np.zeros((kept, n_arms))

    def play(self, chunk: "_Chunk", horizon: int) -> Floats:
        """Play a chunk: the expected loss of each decision."""
        paid = np.empty(chunk.draws.size)
        here = slice(chunk.first - 1, chunk.first - 1 + chunk.draws.size)
        reached = 0
        while True:
            with np.errstate(over="ignore"):  # coins wrap around; numpy would warn where nothing is compiled
                reached = compiled_play()(
                    self.state,
                    self.params,
                    self.clock,
                    self.memory,
                    self.calendar,
                    self.p,
                    chunk.draws,
                    chunk.losses,
                    chunk.delays,
                    chunk.expected,
                    chunk.key,
                    reached,
                    horizon,
                    paid,
                    self.trace[here],
                    self.trace_patience[here],
                    self.trace_p[here],
                    self.trace_losses[here],
                    *self.losses_at,
                )
            if reached < 0:
                raise self._bad_outcome(chunk, -1 - reached)
            if reached == chunk.draws.size:
                return paid
            self.memory = protocol.enlarge(self.clock, self.memory)

    def _bad_outcome(self, chunk: "_Chunk", index: int) -> ValueError:
        losses = chunk.losses[index] if chunk.losses.size else chunk.expected[min(index, len(chunk.expected) - 1)]
        return ValueError(
            f"round {chunk.first + index}: losses {losses} and delay {chunk.delays[index]} were filled;"
            " losses from 0 to 1 and a delay of at least 0 are needed"
        )

    def finished_trace(self) -> Trace:
        return Trace(
            arms=self.trace[:, ARM],
            distributions=self.trace_p,
            loss_estimates=self.trace_losses,
            outstanding=self.trace[:, OUTSTANDING],
            patience=self.trace_patience,
            skipped=self.trace[:, SKIPPED],
        )


@dataclass(frozen=True)
class _Chunk:
    """Some consecutive rounds, as every learner of a replication meets them."""

    first: int
    draws: Floats
    losses: Floats
    delays: NDArray[np.int64]
    expected: Floats
    key: np.uint64


@dataclass(frozen=True)
class _Task:
    """What to do in each replication."""

    learners: tuple[TunedLearner, ...]
    environment: Environment
    delays: Delays
    rounds: int
    seed: int
    checkpoints: NDArray[np.int64]
    keep_trace: bool


@dataclass(frozen=True)
class _Outcome:
    """What one replication gave, by learner."""

    regret: Floats
    uniform_regret: Floats
    skipped: NDArray[np.int64]
    most_outstanding: NDArray[np.int64]
    traces: tuple[Trace, ...]


class _Stopped(Exception):
    """Somebody asked to stop."""


class _Count:
    """Rounds done so far by all threads, and whether to go on."""

    def __init__(self) -> None:
        self.done = 0
        self.stop = threading.Event()
        self.lock = threading.Lock()

    def add(self, rounds: int) -> None:
        if self.stop.is_set():
            raise _Stopped
        with self.lock:
            self.done += rounds


def _chunks(task: _Task, replication: int) -> Iterator[_Chunk]:
    """The rounds of a replication, from its own three streams of random numbers: losses, delays, draws."""
    seeds = np.random.SeedSequence(task.seed, spawn_key=(replication,)).spawn(3)
    for_losses, for_delays, for_draws = (np.random.default_rng(seed) for seed in seeds)
    key = coins.new_key(for_losses)
    n_arms = task.environment.n_arms
    size = max(min(CHUNK // n_arms, CHUNK_ROUNDS), 1)
    for first in range(1, task.rounds + 1, size):
        rounds = np.arange(first, min(first + size, task.rounds + 1), dtype=np.int64)
        expected, losses = task.environment.fill(for_losses, rounds)
        delays = task.delays.fill(for_delays, rounds)
        yield _Chunk(
            first=first,
            draws=for_draws.random(rounds.size),
            losses=_filled(task.environment, losses, (rounds.size, n_arms), np.float64)
            if losses is not None
            else NO_LOSSES,
            delays=_filled(task.delays, delays, (rounds.size,), np.int64),
            expected=_filled(
                task.environment, expected, (1 if len(expected) == 1 else rounds.size, n_arms), np.float64
            ),
            key=key,
        )


def _filled(source: object, values: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    if np.shape(values) != shape:
        raise ValueError(f"{source!r} filled an array of shape {np.shape(values)}; {shape} is needed")
    return np.require(values, dtype, ["C", "W"])


def _replicate(task: _Task, replication: int, count: _Count) -> _Outcome:
    players = [_Player(tuned, task.environment.n_arms, task.rounds, task.keep_trace) for tuned in task.learners]
    regret = np.empty((len(players), task.checkpoints.size))
    uniform_regret = np.empty(task.checkpoints.size)
    totals = np.zeros(task.environment.n_arms)  # each arm's expected loss so far
    noted = 0
    for chunk in _chunks(task, replication):
        end = chunk.first + chunk.draws.size
        until = int(np.searchsorted(task.checkpoints, end))
        stops = task.checkpoints[noted:until] - chunk.first + 1
        lowest = np.empty(stops.size)
        begin = 0
        for k, stop in enumerate([*stops, chunk.draws.size]):
            if chunk.expected.shape[0] == 1:
                totals += (stop - begin) * chunk.expected[0]
            else:
                totals += chunk.expected[begin:stop].sum(axis=0)
            if k < stops.size:
                lowest[k] = totals.min()
                uniform_regret[noted + k] = totals.mean() - totals.min()
            begin = stop
        for player, row in zip(players, regret, strict=True):
            paid = player.paid + np.cumsum(player.play(chunk, task.rounds))
            player.paid = paid[-1]
            row[noted:until] = paid[stops - 1] - lowest
            count.add(chunk.draws.size)
        noted = until
    return _Outcome(
        regret=regret,
        uniform_regret=uniform_regret,
        skipped=np.array([player.clock[protocol.SKIPS] for player in players]),
        most_outstanding=np.array([player.clock[protocol.MOST_OUTSTANDING] for player in players]),
        traces=tuple(player.finished_trace() for player in players) if task.keep_trace else (),
    )


def spaced_checkpoints(rounds: int, count: int, spacing: str = "log") -> NDArray[np.int64]:
    """At most `count` rounds from 1 to the last, evenly or by equal factors apart."""
    if spacing == "log":
        points = np.geomspace(1, rounds, count)
    elif spacing == "linear":
        points = np.linspace(rounds / count, rounds, count)
    else:
        raise unknown("spacing", spacing, ("log", "linear"))
    return np.unique(np.rint(points).astype(np.int64).clip(1, rounds))


def check_count(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} is {value!r}; a whole number of at least {least} is needed")
    return int(value)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def simulate(
    learners: Sequence[str | Learner | TunedLearner],
    environment: Environment | str,
    delays: Delays | str = "none",
    *,
    rounds: int,
    replications: int = 20,
    seed: int = 0,
    checkpoints: int | Sequence[int] = 200,
    spacing: str = "log",
    workers: int | None = None,
    progress: bool | None = None,
    keep_trace: bool = False,
) -> Simulation:
    """Play every learner against the same losses, delays and draws, many times over.

    Parameters
    ----------
    learners
        Names, words such as `"robust:delay_constant=1"`, or learners.
    environment, delays
        What generates losses and delays, or words for them: `"bernoulli:means=[0.4,0.5]"`, `"pareto:shape=1,scale=10"`.
    rounds, replications, seed
        How long, how often, and from which random numbers: replication r depends on (seed, r) alone.
    checkpoints, spacing
        The rounds at which regret is noted: their number, spaced by `"log"` or `"linear"`, or the rounds themselves.
    workers
        Threads; all cores by default. The result does not depend on it.
    progress
        Whether to draw a progress bar on standard error; by default where that is a terminal.
    keep_trace
        Keep what happened in every round: (rounds x arms) numbers for each learner and replication.

    >>> from belated import simulate
    >>> result = simulate(["robust", "uniform"], "bernoulli:means=[0.1,0.9]", rounds=1000, replications=4)
    >>> bool(result.final("robust").mean < result.final("uniform").low)
    True
    """
    tuned = tuple(catalogue.tune(learner) for learner in ([learners] if isinstance(learners, str) else learners))
    labels = tuple(each.label for each in tuned)
    if not labels:
        raise ValueError("learners is empty; at least one learner is needed")
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"learner {label!r} is given twice; each may be given once")
    check_count("rounds", rounds)
    check_count("replications", replications)
    check_count("seed", seed, least=0)
    task = _Task(
        learners=tuned,
        environment=Environment.find(environment),
        delays=Delays.find(delays),
        rounds=rounds,
        seed=seed,
        checkpoints=_checkpoints(rounds, checkpoints, spacing),
        keep_trace=keep_trace,
    )
    for source in (task.environment, task.delays):
        if source.longest is not None and rounds > source.longest:
            raise ValueError(f"rounds is {rounds}, but {source!r} ends after round {source.longest}")
    threads = min(check_count("workers", workers) if workers is not None else available_cores(), replications)
    outcomes = _run(task, replications, threads, progress)
    return Simulation(
        learners=labels,
        environment=task.environment,
        delays=task.delays,
        seed=seed,
        checkpoints=task.checkpoints,
        regret=np.stack([outcome.regret for outcome in outcomes], axis=1),
        uniform_regret=np.stack([outcome.uniform_regret for outcome in outcomes]),
        skipped=np.stack([outcome.skipped for outcome in outcomes], axis=1),
        most_outstanding=np.stack([outcome.most_outstanding for outcome in outcomes], axis=1),
        traces=tuple(zip(*(outcome.traces for outcome in outcomes), strict=True)),
    )


def replay(
    learner: str | Learner | TunedLearner,
    losses: ArrayLike,
    delays: Sequence[int | None],
    draws: Sequence[float],
) -> Trace:
    """What a learner does, round by round, with these losses (rounds x arms), delays (None: never) and draws in [0,
    1).
    """
    tuned = catalogue.tune(learner)
    table = RecordedLosses(losses)
    waits = RecordedDelays(delays)
    chances = np.array(draws, dtype=np.float64)
    if not chances.shape == waits.delays.shape == table.losses.shape[:1]:
        raise ValueError(
            f"there are {chances.size} draws, {waits.delays.size} delays and losses of {table.losses.shape[0]} rounds; "
            "one of each for every round is needed"
        )
    wrong = np.flatnonzero(~((chances >= 0.0) & (chances < 1.0)))
    if wrong.size:
        raise ValueError(f"draws[{wrong[0]}] is {chances[wrong[0]]}; a number of at least 0 and below 1 is needed")
    player = _Player(tuned, table.n_arms, chances.size, keep_trace=True)
    chunk = _Chunk(
        first=1, draws=chances, losses=table.losses, delays=waits.delays, expected=table.losses, key=np.uint64(0)
    )
    if chances.size:
        player.play(chunk, horizon=chances.size)
    return player.finished_trace()


def _checkpoints(rounds: int, wanted: int | Sequence[int], spacing: str) -> NDArray[np.int64]:
    if isinstance(wanted, int):
        return spaced_checkpoints(rounds, check_count("checkpoints", wanted, least=2), spacing)
    points = np.unique(np.asarray(wanted, dtype=np.int64))
    if not points.size or points[0] < 1 or points[-1] > rounds:
        raise ValueError(f"checkpoints is {list(wanted)}; rounds from 1 to {rounds} are needed")
    return np.union1d(points, [rounds])


def _run(task: _Task, replications: int, threads: int, progress: bool | None) -> list[_Outcome]:
    """All replications, in order. An interrupt, or an error in one, ends the others at their next chunk."""
    count = _Count()
    bar = Progress(task.rounds * replications * len(task.learners), f"{task.environment!r}, {task.delays!r}", progress)
    pool = ThreadPoolExecutor(threads)
    try:
        for tuned in task.learners:
            tuned.learner.addresses  # noqa: B018  compile here, not in two threads at once
        compiled_play()
        futures = [pool.submit(_replicate, task, replication, count) for replication in range(replications)]
        waiting: set[Future[_Outcome]] = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            bar.at(count.done)
            for future in finished:
                future.result()  # raises what the replication raised
        return [future.result() for future in futures]
    finally:
        count.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        bar.close()
