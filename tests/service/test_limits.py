"""Every limit is an option of `belated serve`, checked before anything is opened, and held to."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from belated.cli.main import main
from belated.errors import InvalidValue
from belated.service.limits import Limits, option, options_of_limits
from support.http_helpers import at, create, done, problem, serving, state, talk
from support.ports import free_port
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


@pytest.mark.parametrize(
    ("given", "value", "words"),
    [
        ("--limit-body", "0", ["--limit-body is 0", "a whole number from 1 to 1,073,741,824"]),
        ("--limit-at-once", "1001", ["--limit-at-once is 1001", "1 to 1,000"]),
        ("--limit-connections", "-5", ["--limit-connections is -5"]),
        ("--limit-head", "100", ["--limit-head is 100", "1,024"]),
        ("--limit-head-seconds", "0", ["--limit-head-seconds is 0", "a number from 0.1"]),
        ("--limit-idle-seconds", "nan", ["--limit-idle-seconds is nan"]),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(
    given: str, value: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "never.db"
    assert main(["serve", "--port", "0", "--store", f"sqlite:///{store}", f"{given}={value}"]) == 2
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == [], said
    assert not store.exists()


@pytest.mark.parametrize("value", ["many", "1.5"])
def test_a_limit_that_is_no_number_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--limit-queue", value])
    assert f"{value!r} is not a whole number" in capsys.readouterr().err


def test_limits_are_of_their_kind() -> None:
    with pytest.raises(InvalidValue, match=r"--limit-queue is 1\.5; a whole number"):
        Limits(queue=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="--limit-queue is True"):
        Limits(queue=True)
    assert Limits(head_seconds=3).head_seconds == 3


def test_fewer_at_once_are_honoured_while_it_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, at_once=3) as server, talk(server) as http:
        create(http, "few")
        assert len(done(http.post(at("few", "decisions"), json=[{}] * 3))) == 3
        said = problem(http.post(at("few", "decisions"), json=[{}] * 4), 422, "invalid")
        assert "4" in said
        assert "at most 3 at once" in said
        outcomes = [{"decision": "x", "loss": 1}] * 4
        assert "at most 3" in problem(http.post(at("few", "outcomes"), json=outcomes), 422, "invalid")
        assert state(http, "few")["rounds"] == 3


def test_the_options_reach_the_workers(tmp_path: Path) -> None:
    port = free_port()
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    options = ["--limit-body", "1000", "--limit-connections=500", "--log-format", "json", "--access-log"]
    command = [sys.executable, "-m", "belated.cli", "serve", "--store", store, "--port", str(port), *options]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env={**os.environ, "BELATED_ADMIN_KEY": ADMIN_KEY})
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=30
        ) as http:
            until(lambda: answers(http), 60)
            create(http, "small")
            assert "1,000 bytes" in problem(http.post(at("small", "decisions"), content=b" " * 1001), 413, "too_large")
    finally:
        process.terminate()
        assert process.wait(30) is not None
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {413, 201} <= {line.get("status") for line in said}


def answers(http: httpx.Client) -> bool:
    try:
        return http.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False
