"""Compiling before anybody waits: what deciding with a learner needs, kept in the cache of compiled code.

Compiling takes seconds, in which no other thread of the process runs. So it is done by another process, `belated warm`;
this one then loads what is in the cache, which takes some milliseconds for each learner.
"""

import fcntl
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock

from llvmlite import binding  # type: ignore[import-untyped]

from belated import learners
from belated.core.bets import compiled_advance
from belated.core.capital import compiled as compiled_capital
from belated.core.kernels import COMPILED, cache_directory
from belated.errors import BelatedError
from belated.learners import Learner, TunedLearner
from belated.ledger.events import DecisionRecord, ExperimentSettings, Fate
from belated.ledger.state import ExperimentState

logger = logging.getLogger("belated.ledger")

DEFAULT = "guarded"
MOST_SECONDS = 300.0
"""How long another process may compile."""


def compiled_of(spec: str) -> Learner | None:
    """Return the learner that a spec is of; None where nothing of it is compiled, or where there is none."""
    with suppress(BelatedError, ValueError, TypeError, ImportError, AttributeError):
        tuned = learners.tune(spec)
        if isinstance(tuned, TunedLearner):
            return tuned.learner
    return None


def compile_all(specs: Iterable[str]) -> list[str]:
    """Compile what experiments with these learners need, or load it from the cache; return the names of the
    learners.
    """
    _exercise()
    names = []
    for learner in filter(None, map(compiled_of, specs)):
        _ = learner.addresses
        names.append(learner.name)
        _mark(learner)
    return names


@cache
def _exercise() -> None:
    """Do all that an experiment does, with any learner."""
    compiled_advance()  # for estimates
    compiled_capital()
    state = ExperimentState(ExperimentSettings("warm", [0, 1], DEFAULT, {}, 7, "wait"))
    for number in range(1, 5):
        event = state.decide(str(number), number)
        known = DecisionRecord(event.round, event.arm, event.propensity, number, None, 0, False, *event[10:12])
        if number == 1:
            state.observe("1", known, 0.5, number)
        if number == 2:
            state.default("2", known, 1.0, number)
        if number == 3:
            state.settle("3", known._replace(loss=0.5, fate=int(Fate.HELD)), number)
    state.drawn()
    again = ExperimentState.from_bytes(state.settings, state.to_bytes())
    _ = again.bandit.patience, again.bandit.drift, again.bandit.warnings
    again.look_in(lambda after, until, most: [])
    again.decide("again", 5)


@cache
def _processor() -> str:
    """Return a word for the kind of processor: code compiled for one may not run on another."""
    described = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    return hashlib.blake2b(described.encode(), digest_size=4).hexdigest()


def _marker(learner: Learner) -> Path | None:
    """Return the file that is there once a learner is in the cache; None for a learner that is not ours."""
    folder = cache_directory()
    if folder is None or learners.catalogue.get(learner.name) is not learner:
        return None
    return folder / f"warm-{_processor()}-{learner.name}"


def _mark(learner: Learner) -> None:
    if marker := _marker(learner):
        with suppress(OSError):
            marker.touch()


def is_in_cache(learner: Learner) -> bool:
    """Return whether all that a learner needs was compiled before, by whatever process."""
    marker = _marker(learner)
    return marker is not None and marker.exists()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one process compile at a time: the next finds in the cache what the first has put there."""
    folder = cache_directory()
    if folder is None:
        yield
        return
    file = os.open(folder / "compiling", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


class Warmth:
    """What this process has compiled or loaded."""

    def __init__(self) -> None:
        self._warm: set[str] = set()
        self._lock = Lock()

    def ensure(self, *specs: str) -> None:
        """Return once experiments with these learners can be used without compiling anything."""
        if not COMPILED or self._warm.issuperset(specs):
            return
        with self._lock:
            new = [spec for spec in specs if spec not in self._warm]
            found = {spec: learner for spec in new if (learner := compiled_of(spec))}
            if cold := [spec for spec, learner in found.items() if not is_in_cache(learner)]:
                compile_elsewhere(cold)
            compile_all(found)
            self._warm.update(new)


def compile_elsewhere(specs: list[str]) -> None:
    """Have another process fill the cache. If that fails, this one compiles when it must."""
    folder = cache_directory()
    if folder is None:
        return
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder.parent)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "belated.cli", "warm", *specs],
            env=environment,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
        )
        failed = done.stderr.strip()[-500:] if done.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        failed = str(error)
    if failed:
        logger.warning("compiling %s in another process failed: %s; this one does it", ", ".join(specs), failed)
