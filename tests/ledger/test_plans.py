"""Whatever a young table's statistics suggest, every statement of a transaction goes by an index."""

from collections.abc import Iterator
from typing import Any

import pytest

from belated.ledger.postgres import _KNOWN as POSTGRES_KNOWN
from belated.ledger.postgres import _LOCK as POSTGRES_LOCK
from belated.ledger.postgres import _LOCK_FREE as POSTGRES_LOCK_FREE
from belated.ledger.postgres import _MOVE as POSTGRES_MOVE
from belated.ledger.postgres import _REPORTS as POSTGRES_REPORTS
from belated.ledger.postgres import _TAILS as POSTGRES_TAILS
from belated.ledger.sql import SqlLedger
from belated.ledger.sqlite import _KNOWN as SQLITE_KNOWN
from belated.ledger.sqlite import _KNOWN_REPORTS as SQLITE_KNOWN_REPORTS
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

Statements = dict[str, tuple[str, tuple[Any, ...]]]
ERASE: Statements = {
    "erase decisions": (ERASE_DECISIONS.format(marks="?, ?"), (1, "a", "b")),
    **{f"erase {k}": (ERASE_OUTCOMES.format(by="{by}", kind=k, marks="?, ?"), (1, 2, 3)) for k in OUTCOME_KINDS},
}
BOTH: Statements = {
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


SQLITE: Statements = {
    "known": (SQLITE_KNOWN, ('["a", "b"]', 1)),
    "known, reports": (SQLITE_KNOWN_REPORTS, ('["a", "b"]', 1)),
    "report": (REPORT, (1, 2, "a")),
    "tail": (TAIL, (1, 0)),
    "events": (EVENTS, (1, 0, 10)),
    **BOTH,
}
POSTGRES: Statements = {
    "lock": (POSTGRES_LOCK, ([1, 2],)),
    "lock what is free": (POSTGRES_LOCK_FREE, ([1, 2],)),
    "known": (POSTGRES_KNOWN, ([1, 2], ["a", "b"], [False, True])),
    "reports": (POSTGRES_REPORTS, ([1, 2], ["a", "b"], 1)),
    "tails": (POSTGRES_TAILS, ([1, 2], [0, 0])),
    "move": (POSTGRES_MOVE, ([1, 2], [0, 0], [1, 1], [1, 1], [1, 1], [None, 3])),
    **BOTH,
}


def plans(ledger: SqlLedger, explain: str, column: int, statements: Statements) -> Iterator[tuple[str, list[str]]]:
    """How the database would carry out each statement."""
    with ledger.connection() as connection:
        for statement, (text, given) in statements.items():
            rows = ledger.run(connection, f"{explain} {_by(ledger, statement, text)}", given)
            yield statement, [str(row[column]) for row in rows]


def test_sqlite_searches_and_never_scans(ledger: SqlLedger) -> None:
    for statement, plan in plans(ledger, "EXPLAIN QUERY PLAN", 3, SQLITE):
        assert any(step.startswith("SEARCH") for step in plan), statement
        assert statement not in NAMED or NAMED[statement] in " ".join(plan), statement
        scans = [step for step in plan if step.startswith("SCAN") and "VIRTUAL TABLE" not in step]
        assert scans == [], statement


@pytest.mark.parametrize("kind", ["postgresql"])
def test_postgresql_uses_indexes_before_it_has_statistics(ledger: SqlLedger) -> None:
    for statement, steps in plans(ledger, "EXPLAIN", 0, POSTGRES):
        plan = "\n".join(steps)
        assert "Index" in plan, statement
        indexes = (NAMED.get(statement, ""), *(["reports_by_id"] if statement.endswith(" 8") else []))  # as good
        assert any(index in plan for index in indexes), (statement, plan)
        assert not any(word in plan for word in ("Seq Scan", "Materialize", "Bitmap")), (statement, plan)
