"""Ledgers with a history, to be backed up, copied, damaged and verified."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg

from belated.cli.main import main
from belated.ledger import open_ledger, sqlite_path
from belated.ledger.commands import Command, Decide, KeepSnapshot
from belated.ledger.keys import new_key
from belated.ledger.processor import CommandProcessor
from support.ledger_helpers import MOST, observe, settings


def play(store: str, rounds: int = 40, name: str = "one") -> None:
    """Let an experiment decide, hear of some outcomes, and keep a snapshot in between; let somebody in."""
    with closing(open_ledger(store)) as ledger:
        ledger.create(settings(name), 0, MOST)
        ids = [f"{name}-{k}" for k in range(rounds)]
        half = rounds // 2
        commands: list[Command] = [Decide(name, ids[:half]), observe(name, [(id, 0.25) for id in ids[:half:3]])]
        processor = CommandProcessor(ledger)
        processor.run([*commands, KeepSnapshot(name)])
        processor.run([Decide(name, ids[half:]), observe(name, [(id, 1 / 3) for id in ids[half::2]])])
        ledger.add_key(new_key(f"key of {name}", "decide")[1])


def run(store: str, *statements: str) -> list[Any]:
    """Do something to the tables behind the back of the ledger; the rows of the last statement."""
    path = sqlite_path(store)
    rows: list[Any] = []
    if path is None:
        with psycopg.connect(store) as database:
            for statement in statements:
                cursor = database.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
        return rows
    with closing(apsw.Connection(path)) as file:
        for statement in statements:
            rows = file.execute(statement).fetchall()
    return rows


def contents(store: str) -> dict[str, list[Any]]:
    """All rows of a ledger, but what is written to see whether one can."""
    orders = {
        "migrations": "number",
        "experiments": "key",
        "events": "experiment, number",
        "snapshots": "experiment, position",
        "keys": "number",
    }
    return {name: run(store, f"SELECT * FROM {name} ORDER BY {order}") for name, order in orders.items()}


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder: what is in it, and when it was written. What processes share of a log is left out."""
    found = {}
    for path in folder.iterdir():
        content = b"" if path.name.endswith("-shm") else path.read_bytes()
        found[path.name] = content, 0 if path.name.endswith("-shm") else path.stat().st_mtime_ns
    return found


def belated(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])
