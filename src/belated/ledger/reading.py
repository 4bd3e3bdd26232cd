"""Ledgers that are only read: nothing of them changes, and what is no ledger is told and left as it is."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from belated.ledger.base import LedgerError, LedgerUnavailable
from belated.ledger.migrations import MIGRATIONS
from belated.ledger.shape import CORE, Shape, Table, expected
from belated.ledger.sql import SqlLedger

NEWEST = MIGRATIONS[-1].number


class Damaged(LedgerError):
    """What should be a ledger cannot be read, or is none."""


class OtherVersion(LedgerError):
    """The ledger was made by another version of belated."""


class ReadingLedger(SqlLedger):
    """A ledger that is only read. Its transactions see one picture of all tables, however long they take."""

    damage: tuple[type[Exception], ...]
    """Those of the database's errors that mean that what it reads makes no sense."""

    @abstractmethod
    def shape(self, connection: Any) -> Shape:
        """Return which tables, columns and indexes there are."""

    @abstractmethod
    def stream(self, connection: Any, table: Table, plus_zero: bool = False) -> Iterator[Sequence[Any]]:
        """Yield all rows of a table, in the order of its primary key; plus_zero: a zero has no sign."""

    @abstractmethod
    def storage_faults(self, connection: Any, shape: Shape) -> Iterator[str]:
        """Say what is wrong with how the database keeps the tables and their indexes."""

    @contextmanager
    def connection(self, begin: bool = False) -> Iterator[Any]:
        try:
            with super().connection(begin) as connection:
                yield connection
        except LedgerUnavailable as error:
            if isinstance(error.__cause__, self.damage):
                raise Damaged(f"{self.store} is damaged, or no ledger: {self.said(error.__cause__)}") from error
            raise

    def version(self, connection: Any) -> int:
        """Return the number of the last migration that was applied; an error where this is no ledger."""
        tables = self.shape(connection).tables
        if not tables:
            raise Damaged(f"{self.store} is empty: it has no tables, so it is no ledger")
        missing = [name for name in CORE if name not in tables]
        if missing or not {"number", "name", "applied"} <= tables["migrations"].columns.keys():
            some = ", ".join([*tables][:5]) + (", …" if len(tables) > 5 else "")
            raise Damaged(f"{self.store} is no ledger of belated; it is a database with the tables {some}")
        numbers = [number for (number,) in self.run(connection, "SELECT number FROM migrations ORDER BY number")]
        if numbers != list(range(1, len(numbers) + 1)) or not numbers:
            raise Damaged(f"{self.store} has the migrations {numbers}, where 1, 2, 3, … are expected")
        if numbers[-1] > NEWEST:
            raise OtherVersion(
                f"the ledger {self.store} was made by a newer belated: it has migration {numbers[-1]},"
                f" this one knows {NEWEST}"
            )
        return len(numbers)

    def check_current(self) -> None:
        """Raise an error unless this is a ledger of this version of belated."""
        with self.committing() as connection:
            version = self.version(connection)
        if version < NEWEST:
            raise OtherVersion(
                f"the ledger {self.store} was made by an older belated: it has migration {version}, this one needs"
                f" {NEWEST}; `belated ledger migrate` brings it up to date, and so does `belated serve`"
            )

    def expected(self, connection: Any) -> Shape:
        """Return the shape that a ledger of this age should have."""
        return expected(self.version(connection))
