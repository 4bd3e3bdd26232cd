"""Every limit is an option of `belated serve`, checked before anything is opened, and held to."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from belated.cli.main import main
from belated.service import server as server_module
from belated.service.limits import Limits, option, options_of_limits
from belated.service.server import ServerSettings
from support.http_helpers import at, create, done, problem, serving, state, talk
from support.ports import free_port
from support.refusals import refused
from support.serving import ADMIN_KEY
from support.waiting import until

DOCS = Path(__file__).parents[2] / "docs" / "service.md"


def test_every_limit_is_an_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for limit in options_of_limits():
        found = re.search(rf"{option(limit.name)} N (.+?)(?= --|$)", said)
        assert found is not None, limit.name
        assert found[1].replace("- ", "-").endswith(f"default: {limit.default:,}"), found[1]


def test_the_docs_list_every_limit_with_its_default() -> None:
    text = DOCS.read_text()
    for limit in options_of_limits():
        assert f"| `{option(limit.name)}` | {limit.default:,} |".replace(".0 |", " |") in text, limit.name


def test_a_limit_that_makes_no_sense_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "never.db"
    assert main(["serve", "--port", "0", "--store", f"sqlite:///{store}", "--limit-at-once=1001"]) == 2
    said = capsys.readouterr().err
    assert "--limit-at-once" in said
    assert "1001" in said
    assert not store.exists()


@pytest.mark.parametrize("value", ["many", "1.5"])
def test_a_limit_that_is_no_number_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--limit-queue", value])
    assert repr(value) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "nearest"),
    [
        ("body", 0, "1"),
        ("body", (1 << 30) + 1, "1,073,741,824"),
        ("at_once", 1001, "1,000"),
        ("connections", -5, "1"),
        ("head", 1_023, "1,024"),
        ("head_seconds", 0.0, "0.1"),
        ("idle_seconds", float("nan"), "0.1"),
        ("streams", -1, "0"),
        ("queue", 1.5, "1"),
        ("queue", True, "1"),
    ],
)
def test_limits_are_of_their_kind_and_within_their_range(name: str, value: Any, nearest: str) -> None:
    with refused(None, option(name), repr(value), nearest):
        Limits(**{name: value})


def test_limits_that_are_just_within_their_range() -> None:
    limits = Limits(body=1 << 30, at_once=1_000, head=1_024, head_seconds=3, idle_seconds=0.1, streams=0)
    assert (limits.head_seconds, limits.streams) == (3, 0)


def test_fewer_at_once_are_honoured_while_it_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, at_once=3) as server, talk(server) as http:
        create(http, "few")
        assert len(done(http.post(at("few", "decisions"), json=[{}] * 3))) == 3
        outcomes = [{"decision": "x", "loss": 1}] * 4
        for path, body in (("decisions", [{}] * 4), ("outcomes", outcomes)):
            message = problem(http.post(at("few", path), json=body), 422, "invalid")
            assert "4" in message
            assert "3" in message
        assert state(http, "few")["rounds"] == 3


def test_every_limit_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ServerSettings] = []

    def serve(settings: ServerSettings) -> int:
        started.append(settings)
        return 0

    monkeypatch.setattr(server_module, "serve", serve)
    monkeypatch.setenv("BELATED_ADMIN_KEY", ADMIN_KEY)
    given = {each.name: each.type(each.default - 1) for each in options_of_limits()}
    options = [f"{option(name)}={value}" for name, value in given.items()]
    command = ["serve", "--port", "0", "--store", f"sqlite:///{tmp_path / 'ledger.db'}"]
    assert main([*command, *options, "--log-format", "json", "--access-log"]) == 0
    assert main(command) == 0
    assert [each.limits for each in started] == [Limits(**given), Limits()]
    assert [(each.log_format, each.access_log) for each in started] == [("json", True), ("text", False)]


@pytest.mark.slow
def test_the_options_reach_the_workers(tmp_path: Path) -> None:
    port = free_port()
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    options = ["--limit-body", "1000", "--limit-connections=500", "--log-format", "json", "--access-log"]
    command = [sys.executable, "-m", "belated.cli", "serve", "--store", store, "--port", str(port), *options]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env={**os.environ, "BELATED_ADMIN_KEY": ADMIN_KEY})
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=60
        ) as http:
            until(lambda: answers(http, process, tmp_path / "log"))
            create(http, "small")
            problem(http.post(at("small", "decisions"), content=b" " * 1001), 413, "too_large")
    finally:
        process.terminate()
        process.wait(60)
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {413, 201} <= {line.get("status") for line in said}


def answers(http: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"the server has ended: {log.read_text()}")
    try:
        return http.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False
