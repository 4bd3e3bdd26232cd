"""Delays in time, such as days, turned into delays in patients: what a simulation counts in.

Patient t is enrolled at time t / accrual. An outcome that takes d days is known once d * accrual more patients have
been enrolled, rounded up: who comes at the very moment of an outcome is decided on before it is known.
"""

import numpy as np
from numpy.typing import NDArray

from belated.delays import NEVER, Batches, Delays
from belated.errors import InvalidValue

Integers = NDArray[np.int64]

_ROUNDING = 1e-9
"""100 * 1.1 is a little more than 110, and is meant to be 110."""


class InPatients(Delays, registered=False):
    """A law of delay in units of time, where so many patients are enrolled in each unit."""

    def __init__(self, law: Delays, accrual: float) -> None:
        if any(isinstance(inner, Batches) for inner in _inner_laws(law)):
            raise InvalidValue(
                f"delay is {law!r}, with batches inside another law; batches by themselves are needed, since they are"
                " released by the calendar",
                "delay",
            )
        self.law, self.accrual = law, accrual
        self.longest = law.longest
        self.tail_index = law.tail_index
        self.by = law.by

    def __repr__(self) -> str:
        return f"InPatients({self.law!r}, {self.accrual:g})"

    @property
    def title(self) -> str:
        return f"{self.law.title}, at {self.accrual:g} patients in each unit of time"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        if isinstance(self.law, Batches):
            return _up(np.mod(-rounds.astype(np.float64), self.law.every * self.accrual))
        times = self.law.fill(rng, rounds)
        patients = np.where(times == NEVER, np.inf, times * float(self.accrual))
        return _up(patients)


def _up(patients: NDArray[np.float64]) -> Integers:
    """Round up to whole patients; what is beyond counting is NEVER."""
    never = ~(patients < 2.0**62)
    return np.where(never, NEVER, np.ceil(np.where(never, 0.0, patients) - _ROUNDING).astype(np.int64))


def _inner_laws(law: Delays) -> list[Delays]:
    """Return the laws that a law is made of, itself left out."""
    found: list[Delays] = []
    for name in ("others", "good", "bad", "laws"):
        given = getattr(law, name, ())
        for each in given if isinstance(given, tuple) else (given,):
            if isinstance(each, Delays):
                found += [each, *_inner_laws(each)]
    return found
