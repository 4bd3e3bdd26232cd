"""What workers count, side by side in memory that they share, so that any of them can show all."""

import multiprocessing
from bisect import bisect_left
from typing import Any

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
COUNTS = ("repeated", "conflict", "unknown", "busy", "failed_commits", "queue", "clock_offset")
_SIZES_AT = len(COUNTS)
_SECONDS_AT = _SIZES_AT + len(SIZES) + 2
WIDTH = _SECONDS_AT + len(SECONDS) + 2


def new_counters(workers: int) -> Any:
    """Return room for the counts of so many workers, to be handed to their processes."""
    return multiprocessing.get_context("spawn").RawArray("d", workers * WIDTH)


class WorkerCounters:
    """What one worker counts."""

    def __init__(self, counters: Any, worker: int) -> None:
        self._board = counters
        self._at = worker * WIDTH

    def add(self, count: str, amount: float = 1.0) -> None:
        self._board[self._at + COUNTS.index(count)] += amount

    def set(self, count: str, amount: float) -> None:
        self._board[self._at + COUNTS.index(count)] = amount

    def get(self, count: str) -> float:
        return float(self._board[self._at + COUNTS.index(count)])

    def committed(self, size: int, seconds: float) -> None:
        """Count a commit of so many commands that took so long."""
        self._enter(_SIZES_AT, SIZES, size)
        self._enter(_SECONDS_AT, SECONDS, seconds)

    def _enter(self, place: int, bounds: tuple[float, ...], value: float) -> None:
        at = self._at + place
        self._board[at + bisect_left(bounds, value)] += 1
        self._board[at + len(bounds) + 1] += value

    def commit_sizes(self) -> tuple[list[float], float]:
        """Return commits up to each of SIZES and beyond, and the sum of all sizes."""
        return self._entered(_SIZES_AT, SIZES)

    def commit_seconds(self) -> tuple[list[float], float]:
        """Return commits up to each of SECONDS and beyond, and the sum of all times."""
        return self._entered(_SECONDS_AT, SECONDS)

    def _entered(self, place: int, bounds: tuple[float, ...]) -> tuple[list[float], float]:
        at = self._at + place
        return list(self._board[at : at + len(bounds) + 1]), float(self._board[at + len(bounds) + 1])
