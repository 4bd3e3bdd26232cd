"""How long outcomes took: counts by size, small however many there are, quantiles to a sixteenth."""

from bisect import bisect_left

from belated.ledger.events import SECOND

_BITS = 3
_STEPS = 1 << _BITS
BOUNDS = (0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400)
"""Seconds up to which delays are counted exactly, for histograms."""
_BOUNDS = [int(bound * SECOND) for bound in BOUNDS]


def bin_of(value: int) -> int:
    """Return the bin of a number: whole numbers below 16 have one of their own, each doubling beyond has 8."""
    if value < 2 * _STEPS:
        return value
    shift = value.bit_length() - 1 - _BITS
    return (shift << _BITS) + (value >> shift)


def middle_of(index: int) -> float:
    """Return the middle of a bin."""
    if index < 2 * _STEPS:
        return float(index)
    shift = (index >> _BITS) - 1
    low = (index - (shift << _BITS)) << shift
    return low + ((1 << shift) - 1) / 2


class Sizes:
    """Counts of whole numbers by their size."""

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self.counts = counts or {}

    def add(self, value: int) -> None:
        index = bin_of(max(value, 0))
        self.counts[index] = self.counts.get(index, 0) + 1

    def quantile(self, share: float) -> float | None:
        """Return the value that this share of the numbers does not exceed; None where there are no numbers."""
        total = sum(self.counts.values())
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= share * total:
                return middle_of(index)
        return None


class Histogram:
    """Counts of delays, given in microseconds, up to each of BOUNDS and beyond the last; their sum in seconds."""

    def __init__(self, counts: list[int] | None = None, total: float = 0.0) -> None:
        self.counts = counts or [0] * (len(BOUNDS) + 1)
        self.total = total

    def add(self, value: int) -> None:
        self.counts[bisect_left(_BOUNDS, value)] += 1
        self.total += value / SECOND
