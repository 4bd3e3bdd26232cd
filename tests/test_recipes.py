"""The recipes of examples/recipes, each against a real server; and their page, which shows lines of theirs."""

import asyncio
import importlib.util
import re
import runpy
import sqlite3
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import polars
import pytest

from belated.client import Client, ServiceUnavailable
from support.http_helpers import serving
from support.ports import free_port
from support.serving import ADMIN_KEY, Server

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "examples" / "recipes"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running:
        yield running


@pytest.fixture
def service(server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of the server, with an experiment of the test's own; recipes find the server in the environment."""
    monkeypatch.setenv("BELATED_URL", server.url)
    monkeypatch.setenv("BELATED_KEY", ADMIN_KEY)
    with server.client() as client:
        client.create(experiment(request.node.name), ["green", "red"], seed=1)
        yield client


def experiment(test: str) -> str:
    return test.removeprefix("test_").replace("_", "-")


def recipe(name: str, test: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A recipe as a module, with the experiment of the test in place of its own."""
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "EXPERIMENT", experiment(test), raising=False)
    return module


def outcomes(service: Client, name: str) -> dict[str, float]:
    """Visit -> reward, of all outcomes there are."""
    return {str(e.decision): 1.0 - (e.loss or 0.0) for e in service.ledger(name) if e.kind == "outcome"}


def test_fastapi(service: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = recipe("fastapi_shop", "test_fastapi", monkeypatch)

    async def visits() -> str:
        async with visitor_of(shop) as visitor:
            assert (await visitor.post("/purchases")).json() == {"told": "nothing"}
            button = (await visitor.get("/")).json()["button"]
            visit = visitor.cookies["visit"]
            assert service.decide("fastapi", visit).arm == button
            assert (await visitor.get("/")).json()["button"] == button
            assert [(await visitor.post("/purchases")).json()["told"] for _ in range(2)] == ["used", "repeated"]
            assert outcomes(service, "fastapi") == {visit: 1.0}
            visitor.cookies = httpx.Cookies({"visit": "00000000-0000-0000-0000-000000000000"})
            assert (await visitor.post("/purchases")).status_code == 404
            visitor.cookies = httpx.Cookies()
            service.pause("fastapi")
            assert (await visitor.get("/")).json() == {"button": "blue"}
            assert "visit" not in visitor.cookies
            return visit

    async def visits_while_it_is_away(visit: str) -> None:
        async with visitor_of(shop) as visitor:
            assert (await visitor.get("/")).json() == {"button": "blue"}
            visitor.cookies = httpx.Cookies({"visit": visit})
            assert (await visitor.post("/purchases")).json() == {"told": "not yet"}

    visit = asyncio.run(visits())
    monkeypatch.setenv("BELATED_URL", f"http://127.0.0.1:{free_port()}")
    asyncio.run(visits_while_it_is_away(visit))
    assert len(outcomes(service, "fastapi")) == 1


@asynccontextmanager
async def visitor_of(shop: ModuleType) -> AsyncIterator[httpx.AsyncClient]:
    """A browser with cookies at an app that has started."""
    transport = httpx.ASGITransport(shop.app)
    async with (
        shop.app.router.lifespan_context(shop.app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as visitor,
    ):
        yield visitor


def test_django(service: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    shop = recipe("django_shop", "test_django", monkeypatch)
    from django.test import Client as Visitor

    def shown(visitor: Any) -> str:
        found = re.search(r"background: (\w+)", visitor.get("/").content.decode())
        assert found
        return found[1]

    visitor = Visitor()
    button = shown(visitor)
    visit = visitor.cookies["visit"].value.split(":")[0]
    assert service.decide("django", visit).arm == button
    assert shown(visitor) == button
    assert [visitor.post("/buy/").status_code for _ in range(2)] == [200, 200]
    assert Visitor().post("/buy/").status_code == 200
    assert outcomes(service, "django") == {visit: 1.0}
    assert Visitor(enforce_csrf_checks=True).post("/buy/").status_code == 403
    assert visitor.get("/buy/").status_code == 405
    service.pause("django")
    late = Visitor()
    assert shown(late) == "blue"
    assert "visit" not in late.cookies
    shop.client().close()
    shop.client.cache_clear()
    monkeypatch.setenv("BELATED_URL", f"http://127.0.0.1:{free_port()}")
    assert shown(late) == "blue"
    assert visitor.post("/buy/").status_code == 200
    assert [record for record in caplog.records if visit in record.getMessage() and record.levelname == "WARNING"]
    shop.client().close()


def test_celery(service: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER", "memory://")
    jobs = recipe("celery_conversions", "test_celery", monkeypatch)
    jobs.app.conf.task_always_eager = True
    service.decide_many("celery", ["v1", "v2"])
    assert [jobs.report_conversion.delay("v1").get() for _ in range(2)] == ["used", "repeated"]
    assert jobs.report_conversion.delay("v1", reward=0.5).get() == "conflict"
    assert jobs.report_conversion.delay("nobody").get() == "unknown_decision"

    real, attempts = jobs.client().observe, []

    def observe(*given: Any, **outcome: Any) -> Any:
        attempts.append(given)
        if len(attempts) < 3:
            raise ServiceUnavailable(503, "unreachable", "nobody there")
        return real(*given, **outcome)

    monkeypatch.setattr(jobs.client(), "observe", observe)
    assert jobs.report_conversion.delay("v2").get() == "used"
    assert len(attempts) == 3
    assert outcomes(service, "celery") == {"v1": 1.0, "v2": 1.0}
    jobs.client().close()


def test_cron(service: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job = recipe("cron_conversions", "test_cron", monkeypatch)
    monkeypatch.setattr(job, "AT_ONCE", 2)
    service.decide_many("cron", [f"v{k}" for k in range(5)])
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.executescript(job.TABLE)

        def buy(*visits: str) -> None:
            with shop:
                shop.executemany("INSERT INTO purchases (visit, amount) VALUES (?, 9.9)", [(each,) for each in visits])

        buy("v0", "v1", "v1", "not-decided-by-the-service", "no id", "v2")
        assert job.report_new(service, shop) == {"used": 3, "repeated": 1, "unknown": 1, "invalid": 1}
        assert job.report_new(service, shop) == {}
        buy("v3")
        dies = sqlite3.connect(tmp_path / "shop.db")
        dies.set_trace_callback(lambda statement: dies.interrupt() if statement.startswith("UPDATE") else None)
        with closing(dies), pytest.raises(sqlite3.OperationalError):
            job.report_new(service, dies)
        assert outcomes(service, "cron") == {"v0": 1.0, "v1": 1.0, "v2": 1.0, "v3": 1.0}
        assert job.report_new(service, shop) == {"repeated": 1}
        assert shop.execute("SELECT count(*) FROM purchases WHERE receipt IS NULL").fetchone() == (0,)


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, *words: str | Path) -> str:
    """Run a recipe as a program; return what it prints."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
    runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_cron_from_the_command_line(
    service: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.db"
    service.create("button", ["green", "red"], seed=1)
    assert run(capsys, monkeypatch, "cron_conversions", path) == "nothing new\n"
    service.decide("button", "cron-visit")
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.execute("INSERT INTO purchases (visit, amount) VALUES ('cron-visit', 9.9)")
    assert run(capsys, monkeypatch, "cron_conversions", path) == "1 used\n"


def test_export(service: Client, monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    job = recipe("nightly_export", "test_export", monkeypatch)
    folder = tmp_path / "warehouse"

    def night() -> Path | None:
        return job.export(server.url, ADMIN_KEY, "export", folder)

    assert night() is None
    service.decide_many("export", [f"v{k}" for k in range(30)])
    assert night() == folder / "000000000001-000000000030.parquet"
    assert night() is None
    service.observe("export", "v7", reward=1.0)
    service.decide("export", "v30")
    (folder / "incomplete").write_text("of a night that was cut short")
    assert night() == folder / "000000000031-000000000032.parquet"
    assert sorted(path.name[-8:] for path in folder.iterdir()) == [".parquet", ".parquet"]
    frame = polars.read_parquet(folder / "*.parquet").sort("number")
    assert frame["number"].to_list() == list(range(1, 33))
    assert frame["decision"].to_list() == [str(event.decision) for event in service.ledger("export")]
    with pytest.raises(httpx.HTTPStatusError) as refused:
        job.export(server.url, "wrong", "export", tmp_path / "refused")
    assert refused.value.response.status_code == 401
    assert list((tmp_path / "refused").glob("*.parquet")) == []


def test_export_from_the_command_line(
    service: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("export-from-the-command-line", tmp_path)
    assert run(capsys, monkeypatch, "nightly_export", *words) == "nothing new\n"


def test_flag(service: Client, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = recipe("flag_shop", "test_flag", monkeypatch)
    monkeypatch.setattr(shop.flag, "experiment", "flag")
    with httpx.Client(transport=httpx.WSGITransport(shop.app), base_url="http://shop") as visitor:
        page = visitor.get("/", params={"visit": '" no id'}).text
        assert page == '<a style="background: blue" href="/buy?visit=%22%20no%20id">Buy</a>'
        page = visitor.get("/").text
        link = re.search(r'href="(/buy\?visit=([^"]+))"', page)
        assert link
        assert str(service.decide("flag", link[2]).arm) in page
        assert visitor.get("/", params={"visit": link[2]}).text == page
        assert visitor.get(link[1]).text == "Thank you."
    shop.flag.close()
    assert outcomes(service, "flag") == {link[2]: 1.0}


def test_the_page_shows_lines_of_the_recipes() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text()
    blocks = re.findall(r"```py\n(.*?)```", page, flags=re.DOTALL)
    programs = {path.name: textwrap.dedent(path.read_text()) for path in RECIPES.glob("*.py")}
    shown = set()
    for block in blocks:
        for part in block.strip("\n").split("\n…\n"):
            found = [name for name, text in programs.items() if part in text]
            assert found, f"in no recipe: {part}"
            shown |= set(found)
    assert shown == set(programs)
    for name in programs:
        assert f"](../examples/recipes/{name})" in page


def test_recipes_need_no_more_than_they_say() -> None:
    """Each names what to install, and the role that its key needs."""
    for path in RECIPES.glob("*.py"):
        text = path.read_text()
        assert "pip install" in text, path.name
        assert re.search("the role (decide|read)", text), path.name
