"""Who may read the files: their owner alone; and a warning where others may."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from belated.cli.main import main
from belated.ledger import open_ledger
from belated.service.app import application
from support.http_helpers import create, decide, talk
from support.serving import Server


@pytest.fixture(autouse=True)
def open_handed() -> Iterator[None]:
    """A mask as most people have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_ledger_its_log_and_its_exports_are_private(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Server(store, tmp_path / "log") as server, talk(server) as http:
        create(http, "one")
        decide(http, "one", "a")
        files = sorted(tmp_path.glob("ledger.db*"))
        assert [path.name for path in files] == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
        assert [mode(path) for path in files] == [0o600] * 3
        assert "WARNING" not in server.log.read_text()
    for format in ("ndjson", "csv", "parquet"):
        out = tmp_path / format
        assert main(["ledger", "export", "one", "--store", store, "--format", format, "--out", str(out)]) == 0
        assert mode(out) == 0o600
    there = tmp_path / "there"
    there.write_text("x" * 10_000)
    assert main(["ledger", "export", "one", "--store", store, "--out", str(there)]) == 0
    assert (mode(there), there.read_bytes()) == (0o644, (tmp_path / "ndjson").read_bytes())


def test_a_ledger_that_others_may_read_is_told_of_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.db"
    store = f"sqlite:///{path}"
    open_ledger(store).close()
    path.chmod(0o640)
    with closing(open_ledger(store)) as ledger:
        assert ledger.readable_by_others() == f"{path} (mode 640)"

    async def begin() -> None:
        app = application(lambda: open_ledger(store))
        async with app.lifespan_context(app):
            pass

    asyncio.run(begin())
    logged = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.args for record in logged] == [(f"{path} (mode 640)",)]
    assert mode(path) == 0o640
    for each in tmp_path.glob("ledger.db*"):
        each.chmod(0o600)
    with closing(open_ledger(store)) as ledger:
        assert ledger.readable_by_others() is None
