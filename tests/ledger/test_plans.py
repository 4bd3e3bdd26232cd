"""Whatever a young table's statistics suggest, every statement of a transaction goes by an index."""

from contextlib import closing
from pathlib import Path

import pytest

from belated.ledger import open_ledger
from belated.ledger.postgres import _KNOWN as POSTGRES_KNOWN
from belated.ledger.postgres import _LOCK as POSTGRES_LOCK
from belated.ledger.postgres import _LOCK_FREE as POSTGRES_LOCK_FREE
from belated.ledger.postgres import _MOVE as POSTGRES_MOVE
from belated.ledger.postgres import _REPORTS as POSTGRES_REPORTS
from belated.ledger.postgres import _TAILS as POSTGRES_TAILS
from belated.ledger.postgres import PostgresLedger
from belated.ledger.sql import SqlLedger
from belated.ledger.sqlite import _KNOWN as SQLITE_KNOWN
from belated.ledger.sqlite import _KNOWN_REPORTS as SQLITE_KNOWN_REPORTS
from belated.ledger.sqlite import SqliteLedger
from belated.ledger.statements import (
    CHANGES,
    DECISIONS,
    ERASE_DECISIONS,
    ERASE_OUTCOMES,
    EVENTS,
    FALLBACKS,
    OUTCOME_KINDS,
    OUTCOMES,
    REPORT,
    RESULTS,
    STATUSES,
    TAIL,
)
from support.serving import Stores

ERASE = {
    "erase decisions": (ERASE_DECISIONS.format(marks="?, ?"), (1, "a", "b")),
    **{f"erase {k}": (ERASE_OUTCOMES.format(by="{by}", kind=k, marks="?, ?"), (1, 2, 3)) for k in OUTCOME_KINDS},
}
BOTH = {
    **{f"due, {hears.name.lower()}": (text, (9, 9, 1, 0, 9, 10)) for hears, text in DECISIONS.items()},
    **{f"results, {hears.name.lower()}": (text, (1, 0, 9, 10)) for hears, text in RESULTS.items()},
    **{f"outcomes {k}": (OUTCOMES.format(by="{by}", kind=k, marks="?, ?"), (1, 2, 3)) for k in OUTCOME_KINDS},
    "changes": (CHANGES, (1, 0, 9)),
    "statuses": (STATUSES, (1,)),
    "fallbacks": (FALLBACKS, (1, "a")),
    **ERASE,
}
NAMED = {
    "changes": "changes_by_number",
    "statuses": "statuses_by_number",
    **{f"{what} {k}": index for what in ("erase", "outcomes") for k, index in OUTCOME_KINDS.items()},
}
"""Where the index of all events would do as well, and take longer."""


def _by(ledger: SqlLedger, statement: str, text: str) -> str:
    return text.format(by=ledger.by(NAMED[statement])) if statement in NAMED else text


SQLITE = {
    "known": (SQLITE_KNOWN, ('["a", "b"]', 1)),
    "known, reports": (SQLITE_KNOWN_REPORTS, ('["a", "b"]', 1)),
    "report": (REPORT, (1, 2, "a")),
    "tail": (TAIL, (1, 0)),
    "events": (EVENTS, (1, 0, 10)),
    **BOTH,
}
POSTGRES = {
    "lock": (POSTGRES_LOCK, ([1, 2],)),
    "lock what is free": (POSTGRES_LOCK_FREE, ([1, 2],)),
    "known": (POSTGRES_KNOWN, ([1, 2], ["a", "b"], [False, True])),
    "reports": (POSTGRES_REPORTS, ([1, 2], ["a", "b"], 1)),
    "tails": (POSTGRES_TAILS, ([1, 2], [0, 0])),
    "move": (POSTGRES_MOVE, ([1, 2], [0, 0], [1, 1], [1, 1], [1, 1], [None, 3])),
    **BOTH,
}


@pytest.mark.parametrize("statement", SQLITE)
def test_sqlite_searches_and_never_scans(statement: str, tmp_path: Path) -> None:
    text, given = SQLITE[statement]
    with closing(open_ledger(Stores.fresh("sqlite", tmp_path))) as ledger:
        assert isinstance(ledger, SqliteLedger)
        with ledger.connection() as connection:
            plan = [
                str(row[3])
                for row in ledger.run(connection, f"EXPLAIN QUERY PLAN {_by(ledger, statement, text)}", given)
            ]
    assert any(step.startswith("SEARCH") for step in plan)
    assert statement not in NAMED or NAMED[statement] in " ".join(plan)
    assert [step for step in plan if step.startswith("SCAN") and "VIRTUAL TABLE" not in step] == []


@pytest.mark.parametrize("statement", POSTGRES)
def test_postgresql_uses_indexes_before_it_has_statistics(statement: str, tmp_path: Path) -> None:
    text, given = POSTGRES[statement]
    with closing(open_ledger(Stores.fresh("postgresql", tmp_path))) as ledger:
        assert isinstance(ledger, PostgresLedger)
        with ledger.connection() as connection:
            plan = "\n".join(
                str(row[0]) for row in ledger.run(connection, f"EXPLAIN {_by(ledger, statement, text)}", given)
            )
    assert "Index" in plan
    indexes = (NAMED.get(statement, ""), *(["reports_by_id"] if statement.endswith(" 8") else []))  # as good
    assert any(index in plan for index in indexes)
    assert "Seq Scan" not in plan
    assert "Materialize" not in plan
    assert "Bitmap" not in plan
