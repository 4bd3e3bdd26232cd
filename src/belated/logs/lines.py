"""Lines of bytes, many at a time."""

import numpy as np
from numpy.typing import NDArray

from belated.logs.log import Integers
from belated.logs.values import Mask

Bytes = NDArray[np.uint8]
NEWLINE, RETURN = 10, 13


def whole_lines(data: bytes, is_last: bool) -> tuple[bytes, bytes]:
    """Return the whole lines, each with its newline, and what is left of the last one."""
    if is_last:
        return (data if data.endswith(b"\n") or not data else data + b"\n"), b""
    cut = data.rfind(b"\n") + 1
    return data[:cut], data[cut:]


def chosen_lines(data: bytes, starts: Integers, ends: Integers, chosen: Mask) -> bytes:
    """Return some of the lines, or rows, that data begins with; each ends at a newline."""
    if not chosen.any():
        return b""
    size = int(ends[-1]) + 1
    if chosen.all() and size == len(data):
        return data
    steps = np.zeros(size + 1, dtype=np.int8)
    steps[starts[chosen]] += 1
    steps[ends[chosen] + 1] -= 1
    is_in = np.cumsum(steps[:-1], dtype=np.int8) > 0
    return np.frombuffer(data, dtype=np.uint8, count=size)[is_in].tobytes()


def blank_lines(bytes_: Bytes, starts: Integers, ends: Integers) -> Mask:
    """Return which lines, or rows, are empty; those with blanks in them do not count."""
    lengths = ends - starts
    is_blank: Mask = (lengths == 0) | ((lengths == 1) & (bytes_[starts] == RETURN))
    return is_blank
