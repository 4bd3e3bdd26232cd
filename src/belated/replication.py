"""One replication: learners, one after the other, on the same chunks of losses, delays and draws; and many of them.

Replications run on threads: the loop and numpy's generators leave the GIL alone, so nothing is copied or pickled.
"""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import coins, truth
from belated import rounds as protocol
from belated.delays import Delays
from belated.environments import Environment, Floats
from belated.learners import TunedLearner
from belated.learners.plain import PlainLearner
from belated.loop import BY, compiled_play
from belated.player import Chunk, PlainPlayer, Player, Trace
from belated.progress import Progress

CHUNK_LOSSES = 1 << 20
"""Losses in a chunk, at most."""
CHUNK_ROUNDS = 1 << 14
"""Rounds in a chunk, at most: their draws and delays stay in a core's own cache."""
NO_LOSSES = np.empty((0, 0))


@dataclass(frozen=True)
class Task:
    """What to do in each replication."""

    learners: tuple[TunedLearner, ...]
    environment: Environment
    delays: Delays
    rounds: int
    seed: int
    checkpoints: NDArray[np.int64]
    keep_trace: bool
    wide: int | None = None
    """The last rounds whose distributions a trace keeps; all by default."""


@dataclass(frozen=True)
class Outcome:
    """What one replication gave, by learner."""

    regret: Floats
    uniform_regret: Floats
    skipped: NDArray[np.int64]
    most_outstanding: NDArray[np.int64]
    drift: Floats
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


def chunks(task: Task, replication: int) -> Iterator[Chunk]:
    """The rounds of a replication, from its own three streams of random numbers: losses, delays, draws."""
    for_losses, for_delays, for_draws, _ = _streams(task, replication)
    key = coins.new_key(for_losses)
    n_arms = task.environment.n_arms
    for rounds in _pieces(task):
        expected, losses = task.environment.fill(for_losses, rounds)
        yield Chunk(
            first=int(rounds[0]),
            draws=for_draws.random(rounds.size),
            losses=_filled(task.environment, losses, (rounds.size, n_arms), np.float64)
            if losses is not None
            else NO_LOSSES,
            delays=_fill_delays(task, for_delays, rounds),
            expected=_filled(
                task.environment, expected, (1 if len(expected) == 1 else rounds.size, n_arms), np.float64
            ),
            key=key,
            by=BY[task.delays.by],
        )


def _streams(task: Task, replication: int) -> list[np.random.Generator]:
    seeds = np.random.SeedSequence(task.seed, spawn_key=(replication,)).spawn(4)
    return [np.random.default_rng(seed) for seed in seeds]


def _pieces(task: Task) -> Iterator[NDArray[np.int64]]:
    """The numbers of the rounds of each chunk."""
    size = max(min(CHUNK_LOSSES // task.environment.n_arms, CHUNK_ROUNDS), 1)
    for first in range(1, task.rounds + 1, size):
        yield np.arange(first, min(first + size, task.rounds + 1), dtype=np.int64)


def _fill_delays(task: Task, rng: np.random.Generator, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    delays = task.delays.fill(rng, rounds)
    shape = (rounds.size,) if task.delays.by == "round" else (rounds.size, *np.shape(delays)[1:2])
    return _filled(task.delays, delays, shape, np.int64)


def _truth(task: Task, replication: int) -> dict[str, float]:
    """What learners of a replication are told that must know it. Delays are filled once more, if somebody asks."""
    _, for_delays, _, _ = _streams(task, replication)
    filled = ((int(rounds[0]), _fill_delays(task, for_delays, rounds)) for rounds in _pieces(task))
    return truth.tell(truth.wanted(task.learners), task.delays, task.rounds, filled)


def _filled(source: object, values: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    if np.shape(values) != shape:
        raise ValueError(f"{source!r} filled an array of shape {np.shape(values)}; {shape} is needed")
    return np.require(values, dtype, ["C", "W"])


def _replicate(task: Task, replication: int, count: _Count) -> Outcome:
    told = _truth(task, replication)
    players = [_player(task, tuned, replication, told) for tuned in task.learners]
    regret = np.empty((len(players), task.checkpoints.size))
    uniform_regret = np.empty(task.checkpoints.size)
    totals = np.zeros(task.environment.n_arms)  # each arm's expected loss so far
    noted = 0
    for chunk in chunks(task, replication):
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
            row[noted:until] = player.play(chunk, task.rounds)[stops - 1] - lowest
            count.add(chunk.draws.size)
        noted = until
    return Outcome(
        regret=regret,
        uniform_regret=uniform_regret,
        skipped=np.array([player.clock[protocol.SKIPS] for player in players]),
        most_outstanding=np.array([player.clock[protocol.MOST_OUTSTANDING] for player in players]),
        drift=np.array([player.clock[protocol.DRIFT] * protocol.DRIFT_UNIT for player in players]),
        traces=tuple(player.finished_trace() for player in players) if task.keep_trace else (),
    )


def _player(task: Task, tuned: TunedLearner, replication: int, told: dict[str, float]) -> Player:
    n_arms = task.environment.n_arms
    if isinstance(tuned, PlainLearner):
        chance = _streams(task, replication)[3]
        return PlainPlayer(tuned, n_arms, task.rounds, task.keep_trace, chance, task.wide)
    return Player(tuned, n_arms, task.rounds, task.keep_trace, told, task.wide)


def play_again(task: Task, replication: int) -> Iterator[tuple[Chunk, Player]]:
    """A task's one learner plays a replication once more, chunk by chunk; `trace_p` has the distributions of each."""
    (tuned,) = task.learners
    size = next(_pieces(task)).size
    again = replace(task, keep_trace=False, wide=size)
    player = _player(again, tuned, replication, _truth(task, replication))
    for chunk in chunks(task, replication):
        player.play(chunk, task.rounds)
        yield chunk, player


def replicate(task: Task, replication: int) -> Outcome:
    """One replication by itself, on whatever machine: it depends on the task and its number alone."""
    return _replicate(task, replication, _Count())


def check_task(task: Task) -> None:
    """Refuse what cannot be played: losses or delays that end too early, learners whose needs nobody can tell."""
    for source in (task.environment, task.delays):
        if source.longest is not None and task.rounds > source.longest:
            raise ValueError(f"rounds is {task.rounds}, but {source!r} ends after round {source.longest}")
    truth.check(task.learners, task.delays)


def compile_for(learners: Iterable[TunedLearner]) -> None:
    """Compile what a run of these learners needs, here and now, rather than in two threads at once."""
    for tuned in learners:
        tuned.learner.addresses  # noqa: B018
    compiled_play()


def run(task: Task, replications: int, threads: int, progress: bool | str | None) -> list[Outcome]:
    """All replications, in order. An interrupt, or an error in one, ends the others at their next chunk."""
    count = _Count()
    label = progress if isinstance(progress, str) else f"{task.environment.title}, {task.delays.title}"
    shown = None if isinstance(progress, str) else progress
    bar = Progress(task.rounds * replications * len(task.learners), label, shown)
    pool = ThreadPoolExecutor(threads)
    try:
        compile_for(task.learners)
        futures = [pool.submit(_replicate, task, replication, count) for replication in range(replications)]
        waiting: set[Future[Outcome]] = set(futures)
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
