"""A ledger in PostgreSQL, only read."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from belated.ledger.postgres import BoundedConnection, PostgresLedger
from belated.ledger.reading import ReadingLedger
from belated.ledger.shape import Index, Shape, Table

TYPES = {
    "BIGINT": "int8",
    "INTEGER": "int4",
    "SMALLINT": "int2",
    "DOUBLE PRECISION": "float8",
    "TEXT": "text",
    "BLOB": "bytea",
}
"""Types of the migrations -> those of PostgreSQL."""
_WORDS = {word: kind for kind, word in TYPES.items()}
_SHAPE_TABLES = """
SELECT c.relname, a.attname, t.typname,
       (SELECT array_position(i.indkey::int2[], a.attnum) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND a.attnum > 0 AND NOT a.attisdropped
AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY c.relname, a.attnum
"""
_SHAPE_INDEXES = """
SELECT x.relname, c.relname, coalesce(pg_get_expr(i.indpred, i.indrelid), ''), i.indisprimary, i.indisunique,
       i.indisvalid AND i.indisready,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY place)
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE pg_table_is_visible(c.oid) AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND 0 <> ALL (i.indkey)
ORDER BY x.relname
"""
_READ_BY = """
SELECT set_config('enable_seqscan', %s, true), set_config('enable_indexonlyscan', %s, true),
       set_config('enable_indexscan', %s, true), set_config('enable_bitmapscan', %s, true)
"""
_TABLE = ("on", "off", "off", "off")
_INDEX = ("off", "on", "on", "off")


class PostgresReader(ReadingLedger, PostgresLedger):
    """A database that is read."""

    damage = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)

    def connect(self) -> BoundedConnection:
        connection = super().connect()
        try:
            connection.execute("SET default_transaction_read_only = on")
            # what is read may be written elsewhere, which takes its time; this transaction holds nobody up
            connection.execute("SET idle_in_transaction_session_timeout = 0")
        except BaseException:
            self.shut(connection)
            raise
        return connection

    def begin(self, connection: BoundedConnection) -> None:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.take_time(connection)  # whole tables are read

    def shape(self, connection: BoundedConnection) -> Shape:
        tables: dict[str, Table] = {}
        keys: dict[str, list[tuple[int, str]]] = {}
        for name, column, kind, place in connection.execute(_SHAPE_TABLES).fetchall():
            tables.setdefault(name, Table(name, {}, ())).columns[column] = _WORDS.get(kind, kind)
            if place is not None:
                keys.setdefault(name, []).append((place, column))
        for name, places in keys.items():
            tables[name] = tables[name]._replace(key=tuple(column for _, column in sorted(places)))
        indexes = {}
        for name, table, where, primary, unique, _, columns in connection.execute(_SHAPE_INDEXES).fetchall():
            if not primary:
                plain = where.replace("(", "").replace(")", "")  # as the migrations write it
                indexes[name] = Index(name, table, tuple(columns), unique, plain)
        return Shape(tables, indexes)

    def stream(self, connection: BoundedConnection, table: Table, plus_zero: bool = False) -> Iterator[Sequence[Any]]:
        exact = {column: f"{column} + 0" for column, kind in table.columns.items() if kind == "DOUBLE PRECISION"}
        wanted = ", ".join(exact.get(column, column) if plus_zero else column for column in table.columns)
        order = ", ".join(f'{key} COLLATE "C"' if table.columns[key] == "TEXT" else key for key in table.key)
        statement = f"COPY (SELECT {wanted} FROM {table.name} ORDER BY {order}) TO STDOUT (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([TYPES[kind] for kind in table.columns.values()])
            yield from copy.rows()

    def storage_faults(self, connection: BoundedConnection, shape: Shape) -> Iterator[str]:
        for name, table, where, _, unique, valid, columns in connection.execute(_SHAPE_INDEXES).fetchall():
            if table not in shape.tables or not unique:  # all those of a ledger are
                continue
            if not valid:
                yield f"index {name} of table {table} is marked as invalid"
            else:
                yield from self._compared(connection, name, shape.tables[table], where, columns)

    def _compared(
        self, connection: BoundedConnection, name: str, table: Table, where: str, columns: list[str]
    ) -> Iterator[str]:
        """Read an index and its table, count, sum up what is in the columns, and see whether the index is in order."""
        values = "0"
        for column in columns:
            text = table.columns[column] == "TEXT"
            values = f"hashtextextended({column}, {values})" if text else f"hashint8extended({column}, {values})"
        row = f"ROW({', '.join(columns)})"
        before = ", ".join(f"lag({column}) OVER w AS before_{column}" for column in columns)
        rows = f"FROM {table.name}" + (f" WHERE {where}" if where else "")
        counted = f"SELECT count(*), coalesce(sum({values}::numeric), 0)"
        connection.execute(_READ_BY, _TABLE)
        ((there, there_sum),) = connection.execute(f"{counted} {rows}").fetchall()
        connection.execute(_READ_BY, _INDEX)
        ((here, here_sum, astray),) = connection.execute(
            f"{counted}, count(*) FILTER (WHERE {row} < ROW({', '.join(f'before_{column}' for column in columns)}))"
            f" FROM (SELECT {', '.join(columns)}, {before} {rows} WINDOW w AS (ORDER BY {', '.join(columns)})) ordered"
        ).fetchall()
        if (there, there_sum) != (here, here_sum):
            yield f"index {name} does not agree with table {table.name}: it has {here:,} rows, the table {there:,}"
        elif astray:
            yield f"index {name} of table {table.name} is not in order: {astray:,} rows are in another place"
