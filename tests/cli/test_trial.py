"""`belated trial`: the tables, JSON, the figure, and what is refused."""

import json
import re
import shlex
from pathlib import Path

import pytest

from belated import trial
from belated.cli.main import main
from belated.cli.parser import parser
from support.commands import refused_line

Captured = pytest.CaptureFixture[str]
PAGE = (Path(__file__).parents[2] / "docs" / "trial-design.md").read_text()
COMMANDS = re.findall(r"(?:^|`)(belated trial [^`\n]+)", PAGE, flags=re.MULTILINE)
SMALL = ["trial", "--rates", "0.2", "0.8", "--patients", "60", "--simulations", "40"]


def test_the_tables_and_the_verdict(capsys: Captured) -> None:
    words = [*SMALL, "--accrual", "2", "--delay", "byloss:good=2,bad=5", "--learner", "thompson", "--stop", "never"]
    assert main(words) == 0
    out = capsys.readouterr().out
    found = trial.design(
        [0.2, 0.8], 60, simulations=40, accrual=2, delay="byloss:good=2,bad=5", learner="thompson", stop="never"
    )
    assert [name for name in ("0.2, 0.8", "delay 2", "delay 5", "60", "z-test") if name not in out] == []
    assert found.verdict in out.replace("\n  ", " ")
    for row in found.rows():
        assert all(cell in out for cell in row)
    lines = [line.split() for line in out.splitlines()]
    analysis = found.adaptive.analysis("naive")
    (first, _) = [line for line in lines if line[:1] == ["z-test"]]
    assert first[1] == f"{100 * float(analysis.power.mean):.1f}"


def test_json_has_everything(capsys: Captured) -> None:
    words = ["--seed", "5", "--alpha", "0.1", "--look-every", "20", "--threads", "1", "--json"]
    assert main([*SMALL, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == trial.design([0.2, 0.8], 60, simulations=40, seed=5, alpha=0.1, look_every=20).as_dict()
    assert (found["learner"], found["stop"], found["looks"]) == ("guarded", "win", [20, 40, 60])
    adaptive, fixed = found["designs"]
    assert (adaptive["design"], fixed["design"]) == ("guarded", "fixed randomisation")
    assert [each["name"] for each in fixed["analyses"]] == [
        "randomisation",
        "betting",
        "calibrated",
        "naive",
        "peeking",
    ]
    for name in (
        "shares",
        "best_share",
        "best_low",
        "best_high",
        "successes",
        "success_rate",
        "patients",
        "time",
        "bias",
    ):
        assert name in fixed["alternative"]
        assert name in adaptive["null"]
    assert set(found["difference"]["successes"]) == {"mean", "low", "high"}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Outcomes of two arms; those of b are better, and come sooner."""
    rows = [f"{arm},{int(k % 10 < good)},{delay}" for k in range(20) for arm, good, delay in (("a", 2, 9), ("b", 7, 3))]
    (tmp_path / "log.csv").write_text("\n".join(["arm,reward,delay", *rows]))
    monkeypatch.chdir(tmp_path)
    return "resampled:file=log.csv"


def test_outcomes_of_a_log(log: str, capsys: Captured) -> None:
    words = ["trial", "--outcomes", log, "--patients", "60", "--accrual", "2", "--stop", "never", "--simulations", "40"]
    assert main(words) == 0
    out = capsys.readouterr().out
    found = trial.design(outcomes=log, patients=60, accrual=2, stop="never", simulations=40)
    assert [name for name in ("a 0.2, b 0.7", "log.csv", "60") if name not in out] == []
    assert found.verdict in out.replace("\n  ", " ")
    assert (out.count("a (control)"), out.count("b (best)")) == (2, 2)  # once for each design
    assert main([*words, "--control", "b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["arms"], found["rates"]) == (["b", "a"], [pytest.approx(0.7), pytest.approx(0.2)])
    # one of b's outcomes: all b have theirs after 3 units of time, 6 patients
    assert found["designs"][1]["null"]["time"]["mean"] == 33.0
    assert found["designs"][1]["alternative"]["time"]["mean"] > 38.0


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--rates 0.3 0.5", ["rates", "[0.3, 0.5]"]),
        ("--delay 3", ["delay", "3"]),
        ("--control c", ["'c'", "a, b"]),
    ],
)
def test_what_is_refused_with_outcomes(words: str, names: list[str], log: str, capsys: Captured) -> None:
    refused_line(capsys, ["trial", "--outcomes", log, "--patients", "60", *words.split()], *names)


SLOW = [pytest.param("svg", b"<?xml", marks=pytest.mark.slow), pytest.param("pdf", b"%PDF", marks=pytest.mark.slow)]


@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), *SLOW])
def test_the_figure_is_written(kind: str, begin: bytes, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / f"trial.{kind}"
    assert main([*SMALL, "--figure", str(file)]) == 0
    assert file.read_bytes().startswith(begin)
    assert str(file) in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--rates 0.3 1.5", ["rates[1]", "1.5"]),
        ("--rates 0.3 0.3", ["rates", "[0.3, 0.3]"]),
        ("--patients 0", ["patients", "0"]),
        ("--accrual -1", ["accrual", "-1"]),
        ("--delay sometimes", ["'sometimes'"]),
        ("--delay dropout:share=0.9", ["share=0.9"]),
        ("--learner gess", ["'gess'"]),
        ("--share-floor 0.7", ["share_floor", "0.7", "0.5"]),
        ("--stop soon", ["'soon'", "never, win"]),
        ("--stop never --look-every 4", ["look_every", "4", "'never'"]),
        ("--alpha 1", ["alpha", "1"]),
        ("--figure trial.jpeg", ["'trial.jpeg'", ".png, .svg or .pdf"]),
        ("--figure nowhere/trial.png", ["'nowhere'"]),
    ],
)
def test_what_is_refused(words: str, names: list[str], capsys: Captured) -> None:
    refused_line(capsys, [*SMALL, *words.split()], *names)


def test_a_whole_number_is_a_constant_delay(capsys: Captured) -> None:
    assert main([*SMALL, "--delay", "7", "--stop", "never", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["delay"] == "delay 7"
    assert found["designs"][1]["alternative"]["time"]["mean"] == 67.0


def test_rates_or_outcomes_and_patients_are_needed(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["trial", "--rates", "0.3", "0.5"])
    assert "--patients" in capsys.readouterr().err
    refused_line(capsys, ["trial", "--patients", "9"], "rates", "outcomes")


@pytest.mark.slow
def test_the_example_of_the_page_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert main(shlex.split(COMMANDS[0])[1:]) == 0
    assert capsys.readouterr().out == shown
    assert (tmp_path / "trial.png").exists()


def test_the_commands_and_options_of_the_page_can_be_given() -> None:
    assert len(COMMANDS) == 8
    for command in COMMANDS:
        parser().parse_args(shlex.split(command)[1:])
    for option in re.findall(r"^\| `(--[^|]*?)` \|", PAGE, flags=re.MULTILINE):
        words = shlex.split(option.replace("`, `", " ").replace("FILE", "trial.png"))
        parser().parse_args(["trial", "--rates", "0.3", "0.5", "--patients", "9", *words])
