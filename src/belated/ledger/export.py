"""A ledger as others read it: lines of JSON, CSV, or Parquet, in pieces, however long it is."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from belated.api.types import LedgerEvent
from belated.ledger.base import Ledger
from belated.ledger.commands import RECEIPTS
from belated.ledger.events import (
    COMINGS,
    SECOND,
    Event,
    ExperimentRecord,
    Kind,
    distribution_of,
    labels_of,
    present_after,
    when,
)

FORMATS = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
"""Format -> media type."""
COLUMNS = LedgerEvent.__struct_fields__
_WORDS = {kind: kind.name.lower() for kind in Kind}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet takes for a formula."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
PRIVATE = 0o600


def pieces(ledger: Ledger, record: ExperimentRecord, format: str, after: int = 0) -> Iterator[bytes]:
    """Yield the events of an experiment after a number, up to the last there is now, as bytes."""
    return _WRITERS[format](_lines(ledger, record, after))


def _lines(ledger: Ledger, record: ExperimentRecord, after: int) -> Iterator[list[LedgerEvent]]:
    arms = labels_of(record.settings, ledger.changes(record.number, record.events))
    keys = {key.number: key.id for key in ledger.all_keys()}
    present = list(range(len(record.settings.arms)))
    for change in ledger.changes(record.number, after):
        present = present_after(change, present) if change.kind in COMINGS else present
    for events in ledger.all_events(record.number, after):
        lines = []
        for event in events:
            if event.number <= record.events:
                present = present_after(event, present) if event.kind in COMINGS else present
                lines.append(_line(event, arms, keys, present))
        yield lines
        if events[-1].number >= record.events:
            return


def _line(event: Event, arms: list[str | int], keys: Mapping[int | None, str], present: Sequence[int]) -> LedgerEvent:
    number, kind, at, round, id, arm, propensity, loss, fate, waited, _, _, value, total, report, detail, key = event
    return LedgerEvent(
        number,
        _WORDS[kind],  # type: ignore[index, arg-type]
        when(at),
        round,
        id,
        None if arm is None else arms[arm],
        propensity if kind == Kind.DECISION else None,
        loss,
        None if fate is None else RECEIPTS[fate],
        None if waited is None else waited / SECOND,
        keys.get(key),
        value,
        total,
        report,
        detail if kind in (Kind.LIMITS, Kind.FALLBACKS) else _distribution(event, arms, present),
    )


def _distribution(event: Event, arms: list[str | int], present: Sequence[int]) -> str | None:
    """Return the probabilities of all arms at a decision by their labels, as JSON, where they are on record."""
    found = distribution_of(event, arms, present) if event.kind == Kind.DECISION else None
    return None if found is None else msgspec.json.encode({str(arm): share for arm, share in found.items()}).decode()


def _ndjson(chunks: Iterable[list[LedgerEvent]]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for lines in chunks:
        yield encoder.encode_lines(lines)


def _csv(chunks: Iterable[list[LedgerEvent]]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for lines in chunks:
        writer.writerows([map(_cell, msgspec.structs.astuple(line)) for line in lines])
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    if text.getvalue():
        yield text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: a text that begins like one gets an apostrophe."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def _parquet(chunks: Iterable[list[LedgerEvent]]) -> Iterator[bytes]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'belated[parquet]'") from None
    text, whole, real = arrow.string(), arrow.int64(), arrow.float64()
    kinds = [whole, text, text, whole, text, text, real, real, text, real, text, real, real, text, text]
    schema = arrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    sink = _Sink()
    with arrow.parquet.ParquetWriter(sink, schema) as writer:
        for lines in chunks:
            rows = [msgspec.structs.astuple(line) for line in lines]
            columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
            columns[5] = tuple(None if arm is None else str(arm) for arm in columns[5])
            arrays = [arrow.array(column, type=kind) for column, kind in zip(columns, kinds, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Holds what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._at += len(part)
        return len(part)

    def tell(self) -> int:
        return self._at

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def create_private(path: Path) -> BinaryIO:
    """Open a file to write an export to; a new one can be read by its owner only."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, PRIVATE))


_WRITERS: dict[str, Callable[[Iterable[list[LedgerEvent]]], Iterator[bytes]]] = {
    "ndjson": _ndjson,
    "csv": _csv,
    "parquet": _parquet,
}
