"""Snapshots: one versioned, checked blob of bytes.

magic (8 bytes), version (2), BLAKE2b of the rest (16), then a JSON header and the bytes of arrays behind it.
Numbers are little-endian. Nothing is executed when a snapshot is read.
"""

import hashlib
import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.core.rounds import COUNTERS, SLOT
from belated.errors import SnapshotError
from belated.live.limits import Limits
from belated.live.roster import Roster

MAGIC = b"belated\x00"
VERSION = 8
_PREFIX = struct.Struct("<8sH16s")
_LENGTH = struct.Struct("<I")
_DTYPES: dict[str, Any] = {
    "state": "<f8",
    "clock": COUNTERS.newbyteorder("<"),
    "memory": SLOT.newbyteorder("<"),
    "distribution": "<f8",
    "missed": "u1",
    "blocks": "<i8",
    # what came of decisions (`belated.live.outcomes`)
    "stream_decisions": "<i8",
    "stream_marks": "<i8",
    "stream_tally_counts": "<f8",
    "stream_tally_known": "<i8",
    "stream_tally_rewards": "<f8",
    "stream_level_numbers": "<f8",
    "stream_level_sizes": "<i8",
    "stream_bets_numbers": "<f8",
    "stream_bets_shifts": "<i8",
    "stream_bets_arms": "<i8",
    "tail_arms": "<i4",
    "tail_rewards": "<f8",
    "tail_propensities": "<f8",
    "tail_distributions": "<f8",
}


def pack(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return a header that JSON can hold and the arrays named in _DTYPES, as one blob."""
    parts = {name: np.ascontiguousarray(array, dtype=_DTYPES[name]).tobytes() for name, array in arrays.items()}
    text = json.dumps({**header, "sizes": {name: len(part) for name, part in parts.items()}}, default=_plain).encode()
    body = _LENGTH.pack(len(text)) + text + b"".join(parts.values())
    return _PREFIX.pack(MAGIC, VERSION, _digest(body)) + body


def unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a blob that `pack` made."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise SnapshotError(f"a snapshot is bytes, not {type(blob).__name__}")
    blob = bytes(blob)
    if len(blob) < _PREFIX.size or not blob.startswith(MAGIC):
        raise SnapshotError(f"these {len(blob)} bytes are not a snapshot of belated: they do not begin with {MAGIC!r}")
    _, version, digest = _PREFIX.unpack_from(blob)
    if version != VERSION:
        raise SnapshotError(f"the snapshot has version {version}; this belated reads version {VERSION}")
    body = blob[_PREFIX.size :]
    if _digest(body) != digest:
        raise SnapshotError("the snapshot is damaged: its checksum does not fit its content")
    (length,) = _LENGTH.unpack_from(body)
    header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
    at = _LENGTH.size + length
    arrays = {}
    for name, size in header.pop("sizes").items():
        array = np.frombuffer(body[at : at + size], dtype=_DTYPES[name])
        arrays[name] = array.astype(array.dtype.newbyteorder("="))  # a copy of our own, to write to
        at += size
    return header, arrays


def settings_of_run(share_floor: float) -> dict[str, float]:
    """Return what a header has of the settings of a run: nothing for none, as before there were any."""
    return {"share_floor": share_floor} if share_floor else {}


def tuning(header: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that a header has of a learner, with the settings of the run."""
    return {**header["parameters"], **settings_of_run(header.get("share_floor", 0.0))}


def arrangement(roster: Roster, limits: Limits) -> dict[str, Any]:
    """Return what a header has of arms and limits: nothing where all arms are there from the beginning, unlimited."""
    header: dict[str, Any] = {}
    if not roster.is_plain:
        header["roster"] = [roster.entered, roster.present]
    if limits:
        header["limits"] = [[[arm, limits.floor(arm), limits.ceiling(arm)] for arm in limits.shares], limits.holdout]
    return header


def roster_of(header: dict[str, Any], n_arms: int) -> Roster:
    """Return which arms of a snapshot are played."""
    if "roster" not in header:
        return Roster.of(n_arms)
    entered, present = header["roster"]
    return Roster(tuple(entered), tuple(present))


def limits_of(header: dict[str, Any]) -> Limits:
    """Return the limits of a snapshot."""
    shares, holdout = header.get("limits", ((), 0.0))
    return Limits({arm: (low, high) for arm, low, high in shares}, holdout)


def check_sizes(arrays: dict[str, NDArray[Any]], n_arms: int, learner: str, fits: bool, needed: int) -> None:
    """Refuse arrays that are not of the sizes a learner needs for so many arms."""
    if not fits:
        raise SnapshotError(
            f"the snapshot holds {arrays['state'].size} numbers of {learner!r} where {needed} are needed: it was made"
            " by another version of this learner"
        )
    sizes = (arrays["clock"].size, arrays["distribution"].size)
    if sizes != (1, n_arms):
        raise SnapshotError(f"the snapshot's arrays have sizes {sizes}; {(1, n_arms)} are needed")


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _plain(value: Any) -> Any:
    """Return what JSON does not know of a generator's state, numpy's integers and arrays of them, as plain numbers."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.integer):
        return int(value)
    raise TypeError(f"{value!r} cannot be kept in a snapshot")


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    return dict(generator.bit_generator.state)


def generator_from(state: dict[str, Any]) -> np.random.Generator:
    kind = getattr(np.random, str(state.get("bit_generator")), None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise SnapshotError(f"the snapshot's generator is {state.get('bit_generator')!r}, which numpy does not have")
    bits = kind()
    bits.state = state
    return np.random.Generator(bits)
