"""Regret experiments in bulk: one compiled loop for every learner, paired replications, all cores.

Every learner of a replication meets the same losses, delays and draws, in chunks, so that comparisons are paired and
generation is paid once. Memory is that of a chunk and of what is outstanding at most, whatever the number of
rounds. The random numbers of a replication come from (seed, replication), never from who computes it: one core and
many give the same numbers to the bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated import learners as catalogue
from belated.delays import Delays, FillsDelays, delays_for
from belated.delays import Recorded as RecordedDelays
from belated.environments import Environment, FillsLosses, Floats
from belated.environments import Recorded as RecordedLosses
from belated.errors import InvalidValue, check_count, unknown
from belated.inference import Estimates, estimates
from belated.learners import Learner, TunedLearner
from belated.simulation import frames, oracle
from belated.simulation.intervals import Interval, mean_interval
from belated.simulation.parallel import available_cores
from belated.simulation.plot import plot
from belated.simulation.replication import Job, ReplicationResult, check_job, run
from belated.simulation.run import LearnerRun, Trace, new_chunk
from belated.templates.display import counted, html_table


@dataclass(frozen=True, repr=False)
class Simulation:
    """What came out of `simulate`. Arrays have shape (learners, replications, ...)."""

    learners: tuple[str, ...]
    informed: tuple[tuple[str, ...], ...]
    """What each learner was told about the problem: nothing, for most."""
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
    drift: Floats
    """The largest x_{t,I_s} / max(x_{s,I_s}, lambda_{s,t}) at an arrival; above 4 the paper's proof is broken."""
    known: Floats
    """After which round the best arm is known (`belated.simulation.known`): (learners, replications). inf: not by the
    last round; nan: the arms' expected losses change, or nobody asked.
    """
    known_wrong: NDArray[np.bool_]
    """Whether an arm was named then that is not the best: in at most 5 % of all replications on average."""
    traces: tuple[tuple[Trace, ...], ...] = ()
    """One for each learner and replication, where they were asked for."""

    def curve(self, learner: str) -> Interval:
        """Return mean regret at each checkpoint, with its 95 % interval over replications."""
        return mean_interval(self.regret[self._index(learner)])

    def final(self, learner: str) -> Interval:
        """Return mean regret at the last round, with its 95 % interval over replications."""
        return mean_interval(self.regret[self._index(learner), :, -1])

    def known_after(self, learner: str) -> float:
        """Return the round after which the best arm is known, the median over replications; inf where half of them or
        more never know it, nan where `known` is.
        """
        return float(np.median(self.known[self._index(learner)]))

    @property
    def problem(self) -> str:
        """The environment and the delays, in words."""
        return f"{self.environment.title}; {self.delays.title}"

    @property
    def told(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each learner's name, and what it was told about the problem."""
        return list(zip(self.learners, self.informed, strict=True))

    def plot(self, learners: str | Sequence[str] | None = None, ax: Any = None) -> Any:
        """Draw mean regret against rounds, both logarithmic, with 95 % bands and uniform play; return the axes.

        Parameters
        ----------
        learners
            Whose curves to draw, by name; all by default.
        ax
            The axes of matplotlib to draw on. By default a new figure is made, and shown as your backend shows figures:
            in a notebook, under the cell.
        """
        chosen = self.learners if learners is None else (learners,) if isinstance(learners, str) else tuple(learners)
        if not chosen:
            raise InvalidValue("learners is empty; at least one learner is needed", "learners")
        for learner in chosen:
            self._index(learner)
        return plot(self, chosen, ax)

    def estimates(self, learner: str | None = None, *, replication: int = 0, **options: Any) -> Estimates:
        """Return what one would know of the arms after a replication, from what the learner decided and heard.

        The traces must have been kept: `simulate(…, keep_trace=True)`. The options are those of
        `belated.inference.estimates`: alpha, control, method, outcomes, deadline, missing_loss.
        """
        chosen = self._index(self.learners[0] if learner is None else learner)
        if not self.traces:
            raise InvalidValue(
                "estimates need the traces, which were not kept: simulate(…, keep_trace=True)", "keep_trace"
            )
        count = len(self.traces[chosen])
        if check_count("replication", replication, least=0) >= count:
            raise InvalidValue(f"replication is {replication}; 0 to {count - 1} are there", "replication")
        return estimates(self.traces[chosen][replication], **options)

    def __repr__(self) -> str:
        names = ", ".join(self.learners) if len(self.learners) <= 6 else counted(len(self.learners), "learner")
        rounds, replications = int(self.checkpoints[-1]), self.regret.shape[1]
        runs = f"{counted(rounds, 'round')}, {counted(replications, 'replication')}"
        return f"Simulation({names}; {self.problem}; {runs})"

    def _repr_html_(self) -> str:
        rows = [
            [f"{name} (told {', '.join(what)})" if what else name, self.final(name).text] for name, what in self.told
        ]
        rows.append(["uniform play", mean_interval(self.uniform_regret[:, -1]).text])
        return html_table(repr(self), ["learner", "regret at the last round"], rows)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield every learner's regret at every checkpoint of every replication: the header first."""
        yield ("learner", "told", "replication", "round", "regret", "uniform_regret")
        for k, (learner, told) in enumerate(zip(self.learners, self.informed, strict=True)):
            for r in range(self.regret.shape[1]):
                for c, checkpoint in enumerate(self.checkpoints):
                    numbers = float(self.regret[k, r, c]), float(self.uniform_regret[r, c])
                    yield (learner, " ".join(told), r, int(checkpoint), *numbers)

    def frame(self, kind: str | None = None) -> Any:
        """Return the same as a DataFrame of polars or pandas, whichever is installed, or of the kind asked for."""
        return frames.frame(self.rows(), kind)

    def write_parquet(self, path: str | Path) -> None:
        """Write the same as a Parquet file."""
        frames.write_parquet(Path(path), self.rows())

    def _index(self, learner: str) -> int:
        if learner not in self.learners:
            raise unknown("learner of this simulation", learner, self.learners)
        return self.learners.index(learner)


def spaced_checkpoints(rounds: int, count: int, spacing: str = "log") -> NDArray[np.int64]:
    """Return at most `count` rounds from 1 to the last, evenly or by equal factors apart."""
    if spacing == "log":
        points = np.geomspace(1, rounds, count)
    elif spacing == "linear":
        points = np.linspace(rounds / count, rounds, count)
    else:
        raise unknown("spacing", spacing, ("log", "linear"))
    return np.unique(np.rint(points).astype(np.int64).clip(1, rounds))


def simulate(
    learners: Sequence[str | Learner | TunedLearner] | str | Learner | TunedLearner,
    environment: Environment | FillsLosses | str,
    delays: Delays | FillsDelays | str | None = None,
    *,
    rounds: int,
    replications: int = 20,
    seed: int = 0,
    checkpoints: int | Sequence[int] = 200,
    spacing: str = "log",
    threads: int | None = None,
    progress: bool | str | None = None,
    keep_trace: bool = False,
    known: bool = False,
) -> Simulation:
    """Play every learner against the same losses, delays and draws, many times over.

    Parameters
    ----------
    learners
        Names, words such as `"robust:delay_constant=1"`, or learners. Those that must know something about the problem
        (`belated learners` says what) are told the truth, unless it is set.
    environment, delays
        What generates losses and delays, or words for them: `"bernoulli:means=[0.4,0.5]"`, `"pareto:shape=1,scale=10"`.
        Any object with `n_arms` and `fill`, or with `fill`, will do. Without delays, outcomes come at once, or as the
        environment has them if it brings delays of its own (`"resampled:file=log.csv"`).
    rounds, replications, seed
        How long, how often, and from which random numbers: replication r depends on (seed, r) alone.
    checkpoints, spacing
        The rounds at which regret is noted: their number, spaced by `"log"` or `"linear"`, or the rounds themselves.
    threads
        Threads; all cores by default. The result does not depend on it.
    progress
        Whether to draw a progress bar on standard error; by default where that is a terminal. Or its label.
    keep_trace
        Keep what happened in every round: (rounds x arms) numbers for each learner and replication.
    known
        Find out after which round `belated.inference` would have told which arm is the best, with 95 % confidence.

    >>> from belated import simulate
    >>> result = simulate(["robust", "uniform"], "bernoulli:means=[0.1,0.9]", rounds=1000, replications=4)
    >>> bool(result.final("robust").mean < result.final("uniform").low)
    True
    """
    check_count("replications", replications)
    most = check_count("threads", threads) if threads is not None else available_cores()
    job = job_of(
        learners,
        environment,
        delays,
        rounds=rounds,
        seed=seed,
        checkpoints=checkpoints,
        spacing=spacing,
        keep_trace=keep_trace,
        known=known,
    )
    return simulation_of(job, run(job, replications, min(most, replications), progress))


def job_of(
    learners: Sequence[str | Learner | TunedLearner] | str | Learner | TunedLearner,
    environment: Environment | FillsLosses | str,
    delays: Delays | FillsDelays | str | None = None,
    *,
    rounds: int,
    seed: int = 0,
    checkpoints: int | Sequence[int] = 200,
    spacing: str = "log",
    keep_trace: bool = False,
    known: bool = False,
) -> Job:
    """Return what `simulate` does in each replication, for whoever runs them one by one (`replicate`)."""
    given: list[Any] = list(learners) if isinstance(learners, list | tuple) else [learners]
    tuned = tuple(catalogue.tune(learner) for learner in given)
    labels = tuple(each.label for each in tuned)
    if not labels:
        raise InvalidValue("learners is empty; at least one learner is needed")
    for label in labels:
        if labels.count(label) > 1:
            raise InvalidValue(f"learner {label!r} is given twice; each may be given once")
    check_count("rounds", rounds)
    check_count("seed", seed, least=0)
    world = Environment.find(environment)
    job = Job(
        learners=tuned,
        environment=world,
        delays=delays_for(world, delays),
        rounds=rounds,
        seed=seed,
        checkpoints=_checkpoints(rounds, checkpoints, spacing),
        keep_trace=keep_trace,
        known=known,
    )
    check_job(job)
    return job


def simulation_of(job: Job, results: Sequence[ReplicationResult]) -> Simulation:
    """Return what came out of the first replications of a job."""
    return Simulation(
        learners=tuple(each.label for each in job.learners),
        informed=tuple(each.informed for each in job.learners),
        environment=job.environment,
        delays=job.delays,
        seed=job.seed,
        checkpoints=job.checkpoints,
        regret=np.stack([result.regret for result in results], axis=1),
        uniform_regret=np.stack([result.uniform_regret for result in results]),
        skipped=np.stack([result.skipped for result in results], axis=1),
        most_outstanding=np.stack([result.most_outstanding for result in results], axis=1),
        drift=np.stack([result.drift for result in results], axis=1),
        known=np.stack([result.known for result in results], axis=1),
        known_wrong=np.stack([result.known_wrong for result in results], axis=1),
        traces=tuple(zip(*(result.traces for result in results), strict=True)),
    )


def replay(
    learner: str | Learner | TunedLearner,
    losses: ArrayLike,
    delays: Sequence[int | None],
    draws: Sequence[float],
) -> Trace:
    """Return what a learner does, round by round, with losses (rounds x arms), delays (None: never) and draws of your
    own.
    """
    tuned = catalogue.tune(learner)
    table = RecordedLosses(losses)
    waits = RecordedDelays(delays)
    numbers = np.array(draws, dtype=np.float64)
    if not numbers.shape == waits.delays.shape == table.losses.shape[:1]:
        raise InvalidValue(
            f"there are {numbers.size} draws, {waits.delays.size} delays and losses of {table.losses.shape[0]} rounds; "
            "one of each for every round is needed"
        )
    wrong = np.flatnonzero(~((numbers >= 0.0) & (numbers < 1.0)))
    if wrong.size:
        raise InvalidValue(f"draws[{wrong[0]}] is {numbers[wrong[0]]}; a number of at least 0 and below 1 is needed")
    oracle.check([tuned], waits)
    told = oracle.tell(oracle.wanted([tuned]), waits, numbers.size, [(1, waits.delays)], tuned.settled)
    run = LearnerRun(tuned, table.n_arms, numbers.size, True, told)
    if numbers.size:
        run.play(new_chunk(1, numbers, waits.delays, table.losses, numbers.size, losses=table.losses))
    return run.finished_trace()


def _checkpoints(rounds: int, wanted: int | Sequence[int], spacing: str) -> NDArray[np.int64]:
    if isinstance(wanted, int | np.integer):
        return spaced_checkpoints(rounds, check_count("checkpoints", wanted, least=2), spacing)
    if not np.issubdtype(np.asarray(wanted).dtype, np.integer):
        raise InvalidValue(f"checkpoints is {list(wanted)}; whole numbers are needed")
    points = np.unique(np.asarray(wanted, dtype=np.int64))
    if not points.size or points[0] < 1 or points[-1] > rounds:
        raise InvalidValue(f"checkpoints is {list(wanted)}; rounds from 1 to {rounds} are needed")
    return np.union1d(points, [rounds])
