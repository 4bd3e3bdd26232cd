"""A fresh ledger for a test: in SQLite, or, where a test is marked with `kind`, in both databases or the other one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from belated.ledger import open_ledger
from belated.ledger.sql import SqlLedger
from support.serving import Stores


@pytest.fixture
def kind() -> str:
    """The database; a test is parametrized with it where SQL differs."""
    return "sqlite"


@pytest.fixture
def store(kind: str, tmp_path: Path) -> str:
    return Stores.fresh(kind, tmp_path)


@pytest.fixture
def ledger(store: str) -> Iterator[SqlLedger]:
    with closing(open_ledger(store)) as ledger:
        assert isinstance(ledger, SqlLedger)
        yield ledger
