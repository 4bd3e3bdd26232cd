"""Which tables, columns and indexes a ledger has: as its migrations make them, and as they are found."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import apsw

from belated.ledger.migrations import HISTORY, MIGRATIONS
from belated.ledger.sqlite import SqliteLedger

CORE = ("migrations", "experiments", "events", "snapshots", "keys")
"""The tables of every ledger, however old; without them a database is something else."""


class Table(NamedTuple):
    """A table: its columns with their types, as the migrations write them, and its primary key."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]


class Index(NamedTuple):
    """An index that is not that of a primary key."""

    name: str
    table: str
    columns: tuple[str, ...]
    unique: bool
    where: str
    """Its condition; empty if it has all rows."""


class Shape(NamedTuple):
    """All that a database has of these, by name."""

    tables: dict[str, Table]
    indexes: dict[str, Index]


@lru_cache
def expected(number: int) -> Shape:
    """Return the shape of a ledger with the migrations up to a number: of one made in memory."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(HISTORY)
        for migration in MIGRATIONS:
            if migration.number <= number:
                for statement in migration.statements:
                    connection.execute(statement.format(**SqliteLedger.words))
        return found_in(connection)
    finally:
        connection.close()


def found_in(connection: apsw.Connection) -> Shape:
    """Return the shape of an SQLite database."""

    def rows(statement: str, *given: str) -> list[Any]:
        return connection.execute(statement, given).fetchall()

    tables, indexes = {}, {}
    for (name,) in rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
        columns = rows("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", name)
        key = sorted((place, column) for column, _, place in columns if place)
        kinds = {column: kind for column, kind, _ in columns}
        tables[name] = Table(name, kinds, tuple(column for _, column in key))
    made = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    for name, table, statement in rows(made):
        of = tuple(column for (column,) in rows("SELECT name FROM pragma_index_info(?) ORDER BY seqno", name))
        unique = re.match(r"CREATE\s+UNIQUE\b", statement) is not None
        where = " ".join(re.split(r"\bWHERE\b", statement, maxsplit=1)[1:]).strip()
        indexes[name] = Index(name, table, of, unique, where)
    return Shape(tables, indexes)


def differences(found: Shape, wanted: Shape) -> Iterator[str]:
    """Say what is missing or other than it should be. What is there besides does no harm."""
    for name, table in wanted.tables.items():
        if name not in found.tables:
            yield f"table {name} is missing"
            continue
        has = found.tables[name]
        for column, kind in table.columns.items():
            if column not in has.columns:
                yield f"column {column} of table {name} is missing"
            elif has.columns[column] != kind:
                yield f"column {column} of table {name} is {has.columns[column]}, where {kind} is expected"
        if has.key != table.key:
            yield f"table {name} has the primary key ({', '.join(has.key)}), where ({', '.join(table.key)}) is expected"
    for name, index in wanted.indexes.items():
        if name not in found.indexes:
            yield f"index {name} of table {index.table} is missing"
        elif found.indexes[name] != index:
            yield f"index {name} is not the one that is expected on table {index.table}"
