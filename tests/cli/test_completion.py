"""Completion in the shell: argcomplete's protocol, and bash itself."""

import io
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import argcomplete.finders
import pytest

from belated.cli.main import main
from belated.delays import Delays
from belated.environments import Environment
from belated.league.suite import SUITES, suite
from belated.learners import catalogue
from support.commands import refused_line

FOLDER = Path(sys.executable).parent


class Finder(argcomplete.finders.CompletionFinder):
    """argcomplete's own, but for what it writes to file descriptor 9, which is something else in this process."""

    def _init_debug_stream(self) -> None:
        pass


def stop(status: int) -> None:
    raise SystemExit(status)


def candidates(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what completes a line, as a shell asks for it by the environment."""
    out = io.StringIO()
    monkeypatch.setattr(
        "argcomplete.autocomplete", lambda parser: Finder()(parser, exit_method=stop, output_stream=out)
    )
    asking = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
        "COMP_TYPE": "9",
    }
    for name, value in asking.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 0
    return sorted(word.strip() for word in out.getvalue().split("\n") if word.strip())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("belated learners ro", ["robust"]),
        ("belated audit stoch", sorted(name for name in suite if name.startswith("stoch"))),
        ("belated audit resonant-k2/100 --learner exp3_d", ["exp3_delayed", "exp3_drift", "exp3_dropping"]),
        ("belated cells tiny", ["tiny-k10/100", "tiny-k10/none"]),
        ("belated bounds resonant-k10", ["resonant-k10/1000"]),
        ("belated bounds --delays pa", ["pareto"]),
        ("belated league --suite ", sorted(SUITES)),
        ("belated league --family re", ["real", "resonant", "revenue"]),
        ("belated cells --family tri", ["trials"]),
        ("belated league --cells blocks-k2/ blocks-k10", ["blocks-k10/100"]),
        ("belated league --learners ucb tho", ["thompson"]),
        ("belated sweep robust:", ["delay_constant=", "settled=", "share_floor="]),
        ("belated compare --environments res", ["resampled", "resonant"]),
        ("belated compare --delays b", ["batches", "burst", "byarm", "byloss"]),
        ("belated ledger export --format ", ["csv", "ndjson", "parquet"]),
        ("belated co", ["compare", "completion"]),
        ("belated completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_what_may_come_next(line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = [word.removeprefix("robust:") for word in candidates(line, monkeypatch)]
    assert [word for word in words if not word.startswith("-")] == expected


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("belated learners ", catalogue),
        ("belated cells ", suite),
        ("belated compare --environments ", Environment.members),
        ("belated compare --delays ", Delays.members),
    ],
)
def test_all_names_are_offered(line: str, names: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert [word for word in candidates(line, monkeypatch) if not word.startswith("-")] == sorted(names)


def test_bash_completes_by_the_printed_line() -> None:
    script = """
        eval "$(belated completion bash 2>/dev/null)"
        complete -p belated
        COMP_WORDS=(belated learners ro) COMP_CWORD=2 COMP_LINE="belated learners ro" COMP_POINT=19 COMP_TYPE=9
        _python_argcomplete belated
        echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PATH": f"{FOLDER}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    registered, completed = done.stdout.splitlines()
    assert "_python_argcomplete" in registered
    assert completed.strip() == "robust"


@pytest.mark.parametrize(
    ("shell", "line", "file"),
    [
        ("bash", 'eval "$(register-python-argcomplete belated)"\n', "~/.bashrc"),
        ("zsh", 'eval "$(register-python-argcomplete belated)"\n', "~/.zshrc"),
        ("fish", "register-python-argcomplete --shell fish belated | source\n", "~/.config/fish/config.fish"),
    ],
)
def test_the_line_for_each_shell(shell: str, line: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out, note = capsys.readouterr()
    assert out == line
    assert file in note


def test_without_argcomplete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("belated.cli.completion.find_spec", lambda name: None)
    refused_line(capsys, ["completion", "bash"], "argcomplete", "'belated[cli]'")


def test_global_completion_finds_its_mark() -> None:
    """argcomplete looks for it in the first 1024 bytes of the module that a command or `python -m` runs."""
    for name in ("main.py", "__main__.py"):
        source = Path(sys.modules["belated.cli.main"].__file__ or "").with_name(name)
        assert b"PYTHON_ARGCOMPLETE_OK" in source.read_bytes()[:1024]
