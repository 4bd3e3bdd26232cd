"""A ledger copied from database to database, bit for bit, as a whole or not at all."""

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from belated.ledger import copy, open_ledger, read_ledger
from belated.ledger.copy import PostgresTarget, SqliteTarget
from belated.ledger.events import ApiKey, Event, Kind, Status
from belated.ledger.migrations import MIGRATIONS
from belated.ledger.reading import ReadingLedger
from support.histories import belated, contents, play, run
from support.ledger_helpers import append, experiment
from support.serving import KINDS, Stores

Captured = pytest.CaptureFixture[str]
TARGETS: dict[str, type[Any]] = {"sqlite": SqliteTarget, "postgresql": PostgresTarget}
NUMBERS = [0.1 + 0.2, 5e-324, math.nextafter(1, 0), 1 / 3, 1.7976931348623157e308, 0.0, 1.0]
"""That are written in full or not the same."""


def fresh(kind: str, folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return Stores.fresh(kind, folder / name)


def full(kind: str, tmp_path: Path) -> str:
    """A ledger with something in every column of every table, more rows than are read at once."""
    store = fresh(kind, tmp_path, "source")
    play(store)
    with closing(open_ledger(store)) as ledger:
        record = experiment(ledger, "ümlaut ☃")
        events = [
            Event(
                k, int(Kind.DECISION), k, k, f"id {k} ☃", k % 3, NUMBERS[k % 7], None, None, None, -NUMBERS[k % 5], k, 2
            )
            for k in range(1, 1201)
        ]
        events.append(Event(1201, int(Kind.OUTCOME), 2**53 + 1, 9, "id 9 ☃", 1, None, NUMBERS[1], 2, 2**62))
        events.append(Event(1202, int(Kind.PAUSE), 2**53 + 1))
        append(ledger, record.number, events, Status.PAUSED)
        for k, id in enumerate(["Zoë", "apple", "Äpfel", "zoo"]):
            only = None if k % 2 else ("one", "ümlaut ☃")
            ledger.add_key(
                ApiKey(id, "☃", "read", bytes(range(k, 32 + k)), k, k or None, None, only, 2**60, k, 0.1 * k)
            )
    return store


def bits(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows with numbers as they are stored; a type is a part of a value."""

    def exact(value: Any) -> Any:
        if isinstance(value, float):
            return struct.pack(">d", value)
        return bytes(value) if isinstance(value, memoryview | bytes) else (type(value), value)

    return [[exact(value) for value in row] for row in rows]


@pytest.mark.parametrize(
    ("kind", "to"),
    [
        ("sqlite", "postgresql"),
        ("postgresql", "sqlite"),
        pytest.param("postgresql", "postgresql", marks=pytest.mark.slow),
        pytest.param("sqlite", "sqlite", marks=pytest.mark.slow),
    ],
)
def test_every_bit_of_a_ledger_is_copied(
    kind: str, to: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "CHUNK", 500)
    source, target = full(kind, tmp_path), fresh(to, tmp_path, "target")
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0
    said = " ".join(capsys.readouterr().out.split())
    digest = said.rpartition(" ")[2]
    assert len(digest) == 32
    there, here = contents(source), contents(target)
    assert there.keys() == here.keys()
    for name in there:
        assert there[name]
        assert bits(here[name]) == bits(there[name]), name
    with closing(open_ledger(source)) as one, closing(open_ledger(target)) as two:
        assert one.experiments() == two.experiments()
        assert one.all_keys() == two.all_keys()
        assert one.snapshots(1) == two.snapshots(1) != []
    assert belated("ledger", "verify", "one", "--store", target) == 0
    third = fresh("sqlite", tmp_path, "third")
    assert belated("ledger", "copy", "--from", target, "--to", third) == 0
    assert " ".join(capsys.readouterr().out.split()).rpartition(" ")[2] == digest  # whatever is copied, from where


def test_a_zero_keeps_its_sign_where_it_can(tmp_path: Path) -> None:
    source = fresh("postgresql", tmp_path, "source")
    play(source)
    run(source, "UPDATE events SET mark = '-0' WHERE number = 1")
    for kind in KINDS:
        target = fresh(kind, tmp_path, f"target-{kind}")
        assert belated("ledger", "copy", "--from", source, "--to", target) == 0
        ((mark,),) = run(target, "SELECT mark FROM events WHERE number = 1")
        assert mark == 0
        assert math.copysign(1, mark) == (-1 if kind == "postgresql" else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_holds_something_is_left_alone(kind: str, tmp_path: Path) -> None:
    source, target = fresh("sqlite", tmp_path, "source"), fresh(kind, tmp_path, "target")
    play(source)
    play(target, name="other")
    before = contents(target)
    assert belated("ledger", "copy", "--from", source, "--to", target) == 2
    assert contents(target) == before
    assert belated("ledger", "copy", "--from", source, "--to", source) == 2


def nothing_is_there(target: str, folder: Path) -> bool:
    if target.startswith("postgresql"):
        return run(target, "SELECT relname FROM pg_class WHERE relname IN ('events', 'migrations')") == []
    return list((folder / "target").iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_copy_is_never_seen(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while it is made nor after it was cut off."""
    source, target = fresh("sqlite", tmp_path, "source"), fresh(kind, tmp_path, "target")
    play(source)
    seen = []
    inner = TARGETS[kind].fill

    def filled(self: Any, connection: Any, table: Any, chunks: Any) -> None:
        inner(self, connection, table, chunks)
        named = [path for path in (tmp_path / "target").iterdir() if not path.name.endswith(".part")]
        seen.append(nothing_is_there(target, tmp_path) if kind == "postgresql" else not named)
        if len(seen) == 4:
            raise OSError("cut off")

    monkeypatch.setattr(TARGETS[kind], "fill", filled)
    assert belated("ledger", "copy", "--from", source, "--to", target) == 2
    assert seen == [True] * 4
    assert nothing_is_there(target, tmp_path)
    monkeypatch.undo()
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0


@pytest.mark.parametrize(
    ("kind", "wrong"), [("sqlite", "a row less"), ("sqlite", "a row twice"), ("postgresql", "a row changed")]
)
def test_a_copy_that_is_not_the_same_is_not_kept(
    kind: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = fresh("sqlite", tmp_path, "source"), fresh(kind, tmp_path, "target")
    play(source)
    inner = TARGETS[kind].fill

    def changed(self: Any, connection: Any, table: Any, chunks: Any) -> None:
        chunks = [list(chunk) for chunk in chunks]
        if table.name == "events":
            last = list(chunks[-1].pop())
            if wrong == "a row changed":
                chunks[-1].append([*last[:3], last[3] + 1, *last[4:]])
            elif wrong == "a row twice":
                chunks[-1] += [last, [*last[:1], last[1] + 1, *last[2:4], last[4] + 1000, *last[5:]]]
        inner(self, connection, table, chunks)

    monkeypatch.setattr(TARGETS[kind], "fill", changed)
    assert belated("ledger", "copy", "--from", source, "--to", target) == 2
    assert nothing_is_there(target, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_meanwhile_is_not_half_in_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables are read in one picture: an experiment made in the middle of the copy is in none of them."""
    source, target = fresh(kind, tmp_path, "source"), fresh("sqlite", tmp_path, "target")
    play(source)
    before = contents(source)
    reader = type(read_ledger(source))
    inner = reader.stream
    streamed = []

    def streams(self: ReadingLedger, connection: Any, table: Any, plus_zero: bool = False) -> Iterator[Any]:
        streamed.append(table.name)
        if len(streamed) == 2:
            play(source, name="two")
        yield from inner(self, connection, table, plus_zero)

    monkeypatch.setattr(reader, "stream", streams)
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0
    assert contents(target) == before
    assert contents(source) != before


def test_progress_is_told_on_standard_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(copy, "NOTE_SECONDS", 0.0)
    source = fresh("sqlite", tmp_path, "source")
    play(source)
    assert belated("ledger", "copy", "--from", source, "--to", fresh("sqlite", tmp_path, "target")) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "events" in line and "57" in line]) == 2  # written, and read again


def test_what_services_write_to_see_whether_they_can_is_left_out(tmp_path: Path) -> None:
    source, target = fresh("sqlite", tmp_path, "source"), fresh("postgresql", tmp_path, "target")
    play(source)
    open_ledger(target).close()
    for store in (source, target):
        run(store, "INSERT INTO probes (number, at, filler) VALUES (1, 0, '')")
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0
    assert run(target, "SELECT count(*) FROM probes") == [(1,)]


def test_what_is_kept_of_settled_decisions_is_left_out_and_backed_up(tmp_path: Path) -> None:
    source, target = fresh("sqlite", tmp_path, "source"), fresh("postgresql", tmp_path, "target")
    play(source)
    with closing(open_ledger(source)) as ledger:
        ledger.keep_settled(1, 3, b"three")
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0
    assert run(target, "SELECT count(*) FROM settled") == [(0,)]
    assert belated("ledger", "backup", "--store", source, tmp_path / "backup.db") == 0
    with closing(open_ledger(f"sqlite:///{tmp_path / 'backup.db'}")) as ledger:
        assert ledger.settled(1) == b"three"
    assert belated("ledger", "verify", "--store", source) == 0


@pytest.mark.parametrize("kind", ["postgresql"])
def test_an_older_ledger_is_copied_as_it_is(kind: str, tmp_path: Path, capsys: Captured) -> None:
    old = f"sqlite:///{Path(__file__).parents[1] / 'data' / 'ledger-v1.sqlite'}"
    target = fresh(kind, tmp_path, "target")
    assert belated("ledger", "copy", "--from", old, "--to", target) == 0
    assert run(target, "SELECT number FROM migrations") == [(1,)]
    assert {len(row) for row in run(target, "SELECT * FROM events")} == {11}
    newer = fresh("postgresql", tmp_path, "newer")
    open_ledger(newer).close()
    assert belated("ledger", "copy", "--from", target, "--to", newer) == 2
    assert f"migration {MIGRATIONS[-1].number}" in capsys.readouterr().err
    assert run(newer, "SELECT count(*) FROM experiments") == [(0,)]


def test_an_empty_ledger_of_an_older_belated_is_brought_up_to_what_is_copied(tmp_path: Path) -> None:
    source, target = fresh("sqlite", tmp_path, "source"), fresh("postgresql", tmp_path, "target")
    play(source)
    with closing(PostgresTarget(target)) as older:
        older.migrate(MIGRATIONS[:2])
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0
    assert bits(contents(target)["events"]) == bits(contents(source)["events"])
    assert belated("ledger", "verify", "--store", target) == 0


def test_nobody_gets_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes tables, experiments or keys in the target waits until the copy is there."""
    source, target = fresh("sqlite", tmp_path, "source"), fresh("postgresql", tmp_path, "target")
    play(source)
    open_ledger(target).close()
    inner = PostgresTarget.fill
    refused = []

    def filled(self: PostgresTarget, connection: Any, table: Any, chunks: Any) -> None:
        inner(self, connection, table, chunks)
        with psycopg.connect(target, options="-c lock_timeout=50") as other:
            try:
                other.execute("SELECT pg_advisory_xact_lock(%s)", (0x62656C61746564,))
            except psycopg.errors.LockNotAvailable:
                refused.append(table.name)

    monkeypatch.setattr(PostgresTarget, "fill", filled)
    assert belated("ledger", "copy", "--from", source, "--to", target) == 0
    assert len(refused) == 6
