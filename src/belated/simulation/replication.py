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

from belated.core import random
from belated.core.ftrl import FEWEST_ARMS
from belated.delays import Delays, Own
from belated.environments import Environment, Floats
from belated.errors import InvalidValue
from belated.learners import TunedLearner
from belated.learners.python_learner import PythonLearner
from belated.simulation import oracle
from belated.simulation.known import is_wrong, watch_of
from belated.simulation.loop import BY, compiled_close, compiled_play
from belated.simulation.progress import Progress
from belated.simulation.run import NO_LOSSES, Chunk, LearnerRun, PythonLearnerRun, Trace, new_chunk

CHUNK_LOSSES = 1 << 20
"""Losses in a chunk, at most."""
CHUNK_ROUNDS = 1 << 14
"""Rounds in a chunk, at most: their draws and delays stay in a core's own cache."""


@dataclass(frozen=True)
class Job:
    """What to do in each replication."""

    learners: tuple[TunedLearner, ...]
    environment: Environment
    delays: Delays
    rounds: int
    seed: int
    checkpoints: NDArray[np.int64]
    keep_trace: bool
    window: int | None = None
    """The last rounds whose distributions a trace keeps; all by default."""
    known: bool = False
    """Whether to find out when the best arm is known."""


@dataclass(frozen=True)
class ReplicationResult:
    """What one replication gave, by learner."""

    regret: Floats
    uniform_regret: Floats
    skipped: NDArray[np.int64]
    most_outstanding: NDArray[np.int64]
    drift: Floats
    known: Floats
    known_wrong: NDArray[np.bool_]
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


def chunks(job: Job, replication: int) -> Iterator[Chunk]:
    """Yield the rounds of a replication, from its own three streams of random numbers: losses, delays, draws."""
    for_losses, for_delays, for_draws, _ = _streams(job, replication)
    seed = random.new_seed(for_losses)
    n_arms = job.environment.n_arms
    ends = {stretch.first - 1 for stretch in job.environment.stretches(job.rounds)}
    for rounds, arms in _pieces(job):
        if isinstance(job.delays, Own):
            expected, losses, delays = job.environment.fill_with_delays(for_losses, rounds)
            delays = _filled(job.environment, delays, (rounds.size, n_arms), np.int64)
        else:
            expected, losses = job.environment.fill(for_losses, rounds)
            delays = _fill_delays(job, for_delays, rounds)
        expected = _filled(job.environment, expected, (1 if len(expected) == 1 else rounds.size, n_arms), np.float64)
        if losses is not None:
            losses = _of_arms(_filled(job.environment, losses, (rounds.size, n_arms), np.float64), arms)
        yield new_chunk(
            first=int(rounds[0]),
            draws=for_draws.random(rounds.size),
            delays=_of_arms(delays, arms) if job.delays.by == "arm" else delays,
            expected=_of_arms(expected, arms),
            horizon=job.rounds,
            losses=NO_LOSSES if losses is None else losses,
            seed=seed,
            by=BY[job.delays.by],
            left_open=int(rounds[-1]) in ends,
        )


def _streams(job: Job, replication: int) -> list[np.random.Generator]:
    seeds = np.random.SeedSequence(job.seed, spawn_key=(replication,)).spawn(4)
    return [np.random.default_rng(seed) for seed in seeds]


def _chunk_rounds(job: Job) -> int:
    """Return how many rounds a chunk has, at most."""
    return max(min(CHUNK_LOSSES // job.environment.n_arms, CHUNK_ROUNDS), 1)


def _pieces(job: Job) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64] | None]]:
    """Yield the numbers of the rounds of each chunk, and the arms that are present; None where all are, always."""
    size = _chunk_rounds(job)
    stretches = job.environment.stretches(job.rounds)
    begins: list[tuple[int, NDArray[np.int64] | None]] = [(1, None)]
    if stretches:
        begins = [(stretch.first, stretch.arms) for stretch in stretches]
    ends = [first - 1 for first, _ in begins[1:]] + [job.rounds]
    for (begin, arms), end in zip(begins, ends, strict=True):
        for first in range(begin, end + 1, size):
            yield np.arange(first, min(first + size, end + 1), dtype=np.int64), arms


def _of_arms(table: NDArray[Any], arms: NDArray[np.int64] | None) -> NDArray[Any]:
    """Return the columns of the arms that are present; arms beyond the last column have the last."""
    return table if arms is None else np.ascontiguousarray(table[:, np.minimum(arms, table.shape[1] - 1)])


def _fill_delays(job: Job, rng: np.random.Generator, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    delays = job.delays.fill(rng, rounds)
    shape = (rounds.size,) if job.delays.by == "round" else (rounds.size, *np.shape(delays)[1:2])
    return _filled(job.delays, delays, shape, np.int64)


def _truth(job: Job, replication: int) -> dict[int, dict[str, float]]:
    """Return what a replication tells learners that must know it, by what is `settled` for them. Delays are filled once
    more, if one asks.
    """
    told = {}
    for settled in {tuned.settled for tuned in job.learners}:
        wanted = oracle.wanted(tuned for tuned in job.learners if tuned.settled == settled)
        told[settled] = oracle.tell(wanted, job.delays, job.rounds, _all_delays(job, replication), settled)
    return told


def _all_delays(job: Job, replication: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the delays of a replication in pieces, each with the number of its first round."""
    for_losses, for_delays, _, _ = _streams(job, replication)
    if isinstance(job.delays, Own):  # drawn with the losses, from the same random numbers as in `chunks`
        random.new_seed(for_losses)
        for_delays = for_losses
    for rounds, arms in _pieces(job):
        delays = _fill_delays(job, for_delays, rounds)
        yield int(rounds[0]), _of_arms(delays, arms) if job.delays.by == "arm" else delays


def _filled(source: object, values: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    if np.shape(values) != shape:
        raise InvalidValue(f"{source!r} filled an array of shape {np.shape(values)}; {shape} is needed")
    return np.require(values, dtype, ["C", "W"])


def _replicate(job: Job, replication: int, count: _Count) -> ReplicationResult:
    told = _truth(job, replication)
    stretches = {stretch.first: stretch for stretch in job.environment.stretches(job.rounds)}
    asked = job.known and not stretches  # where arms come and go there is no best arm of all rounds
    watches = [watch_of(tuned, job.environment.n_arms, job.rounds) for tuned in job.learners] if asked else []
    recent = _chunk_rounds(job) if watches else 0
    runs = [_learner_run(job, tuned, replication, told, recent) for tuned in job.learners]
    regret = np.empty((len(runs), job.checkpoints.size))
    uniform_regret = np.empty(job.checkpoints.size)
    totals: Any = 0.0  # each arm's expected loss so far, in this stretch
    best = uniform = 0.0  # the loss of the best arm of each stretch before, and the regret of uniform play there
    noted = 0
    means = None  # each arm's expected loss, where it stays the same
    for chunk in chunks(job, replication):
        if chunk.first in stretches and chunk.first > 1:
            best += totals.min()
            uniform += totals.mean() - totals.min()
            totals = 0.0
            for run in runs:
                run.begin(stretches[chunk.first])
        end = chunk.first + chunk.size
        until = int(np.searchsorted(job.checkpoints, end))
        stops = job.checkpoints[noted:until] - chunk.first + 1
        lowest = np.empty(stops.size)
        begin = 0
        for k, stop in enumerate([*stops, chunk.size]):
            if len(chunk.rounds.expected) == 1:
                totals = totals + (stop - begin) * chunk.rounds.expected[0]
            else:
                totals = totals + chunk.rounds.expected[begin:stop].sum(axis=0)
            if k < stops.size:
                lowest[k] = best + totals.min()
                uniform_regret[noted + k] = uniform + (totals.mean() - totals.min())
            begin = stop
        for run, row in zip(runs, regret, strict=True):
            row[noted:until] = run.play(chunk)[stops - 1] - lowest
            count.add(chunk.size)
        means = chunk.rounds.expected if means is None else means
        if watches and not np.array_equal(chunk.rounds.expected, means[:1]):
            watches = []  # losses change: there is nothing to know
        for run, watch in zip(runs, watches, strict=False):
            watch.add(chunk.first, run.decided(chunk))
        noted = until
    known, known_wrong = np.full(len(runs), np.nan), np.zeros(len(runs), dtype=np.bool_)
    for k, watch in enumerate(watches):
        known[k], arm = watch.first()
        known_wrong[k] = means is not None and is_wrong(arm, means[0])
    return ReplicationResult(
        regret=regret,
        uniform_regret=uniform_regret,
        skipped=np.array([run.count("skips") for run in runs]),
        most_outstanding=np.array([run.count("most_outstanding") for run in runs]),
        drift=np.array([run.count("drift") for run in runs]),
        known=known,
        known_wrong=known_wrong,
        traces=tuple(run.finished_trace() for run in runs) if job.keep_trace else (),
    )


def _learner_run(
    job: Job, tuned: TunedLearner, replication: int, told: dict[int, dict[str, float]], recent: int = 0
) -> LearnerRun:
    n_arms = job.environment.n_arms
    stretch = next(iter(job.environment.stretches(job.rounds)), None)
    if isinstance(tuned, PythonLearner):
        rng = _streams(job, replication)[3]
        return PythonLearnerRun(tuned, n_arms, job.rounds, job.keep_trace, rng, job.window, recent, stretch)
    return LearnerRun(tuned, n_arms, job.rounds, job.keep_trace, told[tuned.settled], job.window, recent, stretch)


def play_again(job: Job, replication: int) -> Iterator[tuple[Chunk, LearnerRun]]:
    """Play a replication of a job's one learner once more, chunk by chunk; the notes have the distributions of each."""
    (tuned,) = job.learners
    again = replace(job, keep_trace=False, window=_chunk_rounds(job))
    run = _learner_run(again, tuned, replication, _truth(job, replication))
    for chunk in chunks(job, replication):
        run.play(chunk)
        yield chunk, run


def replicate(job: Job, replication: int) -> ReplicationResult:
    """Return One replication by itself, on whatever machine: it depends on the job and its number alone."""
    return _replicate(job, replication, _Count())


def check_learner(tuned: TunedLearner, environment: Environment, delays: Delays, rounds: int) -> None:
    """Refuse a learner that cannot play: its needs nobody can tell, its arms cannot change, its floor is too high."""
    oracle.check([tuned], delays)
    stretches = environment.stretches(rounds)
    tuned.check_arms(max((stretch.arms.size for stretch in stretches), default=environment.n_arms))
    if not all(stretch.anew for stretch in stretches[1:]):
        try:
            tuned.learner.check_rearm()
        except InvalidValue as error:
            raise InvalidValue(f"{error}; the environment is {environment.title}", "learner") from error


def check_job(job: Job) -> None:
    """Refuse what cannot be played: losses or delays that end too early, arms that are not there, learners that cannot
    play.
    """
    for source in (job.environment, job.delays):
        if source.longest is not None and job.rounds > source.longest:
            raise InvalidValue(f"rounds is {job.rounds}, but {source!r} ends after round {source.longest}")
    if isinstance(job.delays, Own) and job.delays.environment is not job.environment:
        raise InvalidValue(f"delays is {job.delays!r}, of another environment than {job.environment!r}", "delays")
    _check_stretches(job)
    for tuned in job.learners:
        check_learner(tuned, job.environment, job.delays, job.rounds)


def _check_stretches(job: Job) -> None:
    """Refuse stretches that are not those of a run: environments of one's own may have any."""
    last = 0
    for stretch in job.environment.stretches(job.rounds):
        if not (stretch.first == 1 if last == 0 else last < stretch.first <= job.rounds):
            raise InvalidValue(
                f"{job.environment!r} has a stretch from round {stretch.first} on, after one from round {last} on;"
                f" rounds from 1 to {job.rounds} are needed, 1 first, in their order"
            )
        arms = np.asarray(stretch.arms)
        known = np.intersect1d(arms, np.arange(job.environment.n_arms))
        if known.size != arms.size or arms.size < FEWEST_ARMS:
            raise InvalidValue(
                f"{job.environment!r} has the arms {arms.tolist()} from round {stretch.first} on; at least"
                f" {FEWEST_ARMS} of 0 to {job.environment.n_arms - 1} are needed, each once"
            )
        last = stretch.first


def compile_for(learners: Iterable[TunedLearner]) -> None:
    """Compile what a run of these learners needs, here and now, rather than in two threads at once."""
    for tuned in learners:
        tuned.learner.addresses  # noqa: B018
    compiled_play()
    compiled_close()


def run(job: Job, replications: int, threads: int, progress: bool | str | None) -> list[ReplicationResult]:
    """Run all replications and return their results in order. An interrupt, or an error in one, ends the others at
    their next chunk.
    """
    count = _Count()
    label = progress if isinstance(progress, str) else f"{job.environment.title}, {job.delays.title}"
    shown = None if isinstance(progress, str) else progress
    bar = Progress(job.rounds * replications * len(job.learners), label, shown)
    pool = ThreadPoolExecutor(threads)
    try:
        compile_for(job.learners)
        futures = [pool.submit(_replicate, job, replication, count) for replication in range(replications)]
        waiting: set[Future[ReplicationResult]] = set(futures)
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
