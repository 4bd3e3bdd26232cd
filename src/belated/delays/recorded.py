"""Delays that somebody observed: played back, or drawn from."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from belated.delays.law import NEVER, Delays, Integers, check_delay
from belated.errors import InvalidValue


class Recorded(Delays):
    """Delays from a list, one for each round; None (or nan, or the word never) never comes."""

    tail_index = None

    def __init__(self, delays: Sequence[int | str | None]) -> None:
        checked = [
            NEVER
            if delay in (None, "never") or (isinstance(delay, float) and math.isnan(delay))
            else check_delay(f"delays[{t}]", delay)
            for t, delay in enumerate(delays)
        ]
        self.delays = np.array(checked, dtype=np.int64)
        self.longest = self.delays.size

    def __repr__(self) -> str:
        return f"Recorded({self.longest} delays)"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return self.delays[rounds - 1]


class Empirical(Delays):
    """Delays drawn from those in a file or a list, each as likely as the others.

    A file is as `read_delays` has it. What a company knows about its own conversions, without a law.
    """

    def __init__(self, file: str | Path | Sequence[int | None]) -> None:
        if isinstance(file, str | Path):
            self.source = str(file)
            values = read_delays(file)
        else:
            self.source = f"{len(file)} delays"
            values = [NEVER if delay is None else check_delay(f"delay {k}", delay) for k, delay in enumerate(file)]
        if not values:
            raise InvalidValue(f"{self.source} holds no delays; at least one is needed")
        self.delays = np.array(values, dtype=np.int64)
        self.tail_index = 0.0 if (self.delays == NEVER).any() else math.inf

    def __repr__(self) -> str:
        return f"Empirical({self.source})"

    @property
    def title(self) -> str:
        return f"delays as in {self.source}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return rng.choice(self.delays, rounds.size)


def read_delays(file: str | Path) -> list[int]:
    """Return the delays of a file: one a line, in rounds; `never` or an empty line is an outcome that did not come;
    lines that begin with # are left out.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{file} is not text: {error}") from error
    return [_delay(f"{file}, line {k}", line) for k, line in enumerate(lines, 1) if not line.startswith("#")]


def _delay(place: str, line: str) -> Any:
    text = line.strip()
    if text in ("", "never"):
        return NEVER
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < 2.0**62:
        raise InvalidValue(f"{place}: {text!r} is not a delay; a number of rounds, at least 0, or never is needed")
    return int(number)
