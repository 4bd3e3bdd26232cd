"""Results for data tools: a frame of pandas or polars, whichever there is, or a Parquet file."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from belated.errors import InvalidValue

KINDS = ("polars", "pandas")


def frame(rows: Iterable[tuple[Any, ...]], kind: str | None = None) -> Any:
    """Return rows, the header first, as a DataFrame of polars or pandas; of the one that is installed, polars first."""
    if kind is not None and kind not in KINDS:
        raise InvalidValue(f"kind is {kind!r}; one of {', '.join(KINDS)} is needed")
    wanted = [kind] if kind else [name for name in KINDS if find_spec(name)]
    if not wanted or find_spec(wanted[0]) is None:
        raise ImportError(f"frames need {' or '.join([kind] if kind else KINDS)}: pip install 'belated[league]'")
    return import_module(wanted[0]).DataFrame(columns(iter(rows)))


def columns(rows: Iterator[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Return name -> values, from rows with the header first."""
    names = next(rows)
    body = list(rows)
    return {str(name): [row[k] for row in body] for k, name in enumerate(names)}


def write_parquet(path: Path, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows, the header first, as a Parquet file, by polars or by pandas."""
    table = frame(rows)
    if hasattr(table, "write_parquet"):
        table.write_parquet(path)
    else:
        table.to_parquet(path)
