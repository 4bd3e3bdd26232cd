"""What workers count, side by side in memory that they share, so that any of them can show all."""

import multiprocessing
import os
from bisect import bisect_left
from typing import Any

from belated.service.errors import STATUS

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
COUNTS = (
    *("repeated", "conflict", "unknown", "refused", "busy", "failed_commits", "queue", "clock_offset", "damaged"),
    *("waiting_since", "process", "connections", "connections_gave_way", "connections_refused"),
)
STATUSES = (*sorted({200, 201, *STATUS.values()}), 0)
"""The statuses of responses; 0 stands for any other."""
ROUTES = 48
"""Rows for operations. The first one is for requests that belong to none."""
NO_ROUTE = 0
_PLACES = {name: place for place, name in enumerate(COUNTS)}
_SIZES_AT = len(COUNTS)
_SECONDS_AT = _SIZES_AT + len(SIZES) + 2
_REQUESTS_AT = _SECONDS_AT + len(SECONDS) + 2
_STATUS_PLACES = {status: place for place, status in enumerate(STATUSES)}
_OTHER_STATUS = _STATUS_PLACES[0]
_ROUTE_WIDTH = len(STATUSES) + len(SECONDS) + 2
"""Of each route: responses by status, then the histogram of its times."""
WIDTH = _REQUESTS_AT + ROUTES * _ROUTE_WIDTH


def new_counters(workers: int) -> Any:
    """Return room for the counts of so many workers, to be handed to their processes."""
    return multiprocessing.get_context("spawn").RawArray("d", workers * WIDTH)


class WorkerCounters:
    """What one worker counts."""

    def __init__(self, counters: Any, worker: int) -> None:
        self._board: Any = memoryview(counters).cast("B").cast("d")[worker * WIDTH : (worker + 1) * WIDTH]

    def add(self, count: str, amount: float = 1.0) -> None:
        self._board[_PLACES[count]] += amount

    def set(self, count: str, amount: float) -> None:
        self._board[_PLACES[count]] = amount

    def get(self, count: str) -> float:
        return self._board[_PLACES[count]]

    def begin(self) -> None:
        """Note that this process is the worker now, and that nothing waits in it."""
        self.set("process", os.getpid())
        for each in ("queue", "waiting_since", "connections"):
            self.set(each, 0)

    def committed(self, size: int, seconds: float) -> None:
        """Count a commit of so many commands that took so long."""
        self._enter(_SIZES_AT, SIZES, size)
        self._enter(_SECONDS_AT, SECONDS, seconds)

    def answered(self, route: int, status: int, seconds: float) -> None:
        """Count a request that was answered after so long."""
        board = self._board
        at = _REQUESTS_AT + route * _ROUTE_WIDTH
        board[at + _STATUS_PLACES.get(status, _OTHER_STATUS)] += 1
        at += len(STATUSES)
        board[at + bisect_left(SECONDS, seconds)] += 1
        board[at + len(SECONDS) + 1] += seconds

    def _enter(self, at: int, bounds: tuple[float, ...], value: float) -> None:
        self._board[at + bisect_left(bounds, value)] += 1
        self._board[at + len(bounds) + 1] += value

    def commit_sizes(self) -> tuple[list[float], float]:
        """Return commits up to each of SIZES and beyond, and the sum of all sizes."""
        return self._entered(_SIZES_AT, SIZES)

    def commit_seconds(self) -> tuple[list[float], float]:
        """Return commits up to each of SECONDS and beyond, and the sum of all times."""
        return self._entered(_SECONDS_AT, SECONDS)

    def responses(self, route: int) -> dict[int, float]:
        """Return how many responses of a route had each status, of those that there were."""
        at = _REQUESTS_AT + route * _ROUTE_WIDTH
        counts = self._board[at : at + len(STATUSES)].tolist()
        return {status: count for status, count in zip(STATUSES, counts, strict=True) if count}

    def response_seconds(self, route: int) -> tuple[list[float], float]:
        """Return responses of a route up to each of SECONDS and beyond, and the sum of all times."""
        return self._entered(_REQUESTS_AT + route * _ROUTE_WIDTH + len(STATUSES), SECONDS)

    def _entered(self, at: int, bounds: tuple[float, ...]) -> tuple[list[float], float]:
        return self._board[at : at + len(bounds) + 1].tolist(), self._board[at + len(bounds) + 1]
