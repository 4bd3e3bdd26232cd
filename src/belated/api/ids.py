"""Names for decisions that nobody named: UUIDs of version 7, which sort by time."""

import os
import time


def new_id(now: int | None = None) -> str:
    """Return a new id: the time in milliseconds (`now` is in microseconds since 1970), then 74 random bits."""
    milliseconds = (time.time_ns() // 1000 if now is None else now) // 1000
    bits = int.from_bytes(os.urandom(10), "big")
    high = bits >> 68
    low = (bits & 0x3FFFFFFFFFFFFFFF) | 0x8000000000000000
    text = f"{milliseconds & 0xFFFFFFFFFFFF:012x}7{high:03x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
