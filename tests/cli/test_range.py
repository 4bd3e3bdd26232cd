"""`belated range`."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated.cli.main import main
from support.commands import refused_line


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two arms: one sells more often, the other has a few very large orders."""
    chance = np.random.default_rng(8)
    lines = ["arm,revenue"]
    for k in range(4000):
        arm = "steady" if k % 2 else "wild"
        order = chance.lognormal(math.log(40), 0.5) if arm == "steady" else chance.lognormal(math.log(10), 1.9)
        lines.append(f"{arm},{order if chance.random() < 0.3 else 0:.2f}")
    lines[2::40] = [line.split(",")[0] + "," for line in lines[2::40]]
    path = tmp_path / "orders.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_sentences_and_lines_to_paste(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["range", str(log), "--value", "revenue", "--quantile", "0.95", "--wide"]) == 0
    shown = capsys.readouterr()
    assert "value is 'revenue', arm is 'arm'" in shown.err
    lines = shown.out.splitlines()
    (marked,) = [line for line in lines if line.startswith("→")]
    assert "95 %" in marked
    assert "steady first" in marked
    cells = [line.partition(",")[2] for line in log.read_text().splitlines()[1:]]
    values = np.array([float(cell) for cell in cells if cell])
    names = ["0 to 160", f"{100 * np.mean(values > 160):.2g} % of the values", "100 values"]
    names += [f"{values.mean():.3g} to {np.minimum(values, 160).mean():.3g} (-"]
    assert [name for name in names if name not in shown.out] == []
    assert lines[-2:] == [
        '"outcome": {"lowest": 0, "highest": 160, "better": "higher"}',
        "Bandit(…, outcome=Scale(0, 160))",
    ]
    arms = lines[lines.index(next(line for line in lines if line.startswith("arm "))) + 2 :][:2]
    assert [line.split()[0] for line in arms] == ["wild", "steady"]


def test_the_same_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["range", str(log), "--json", "--empty", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["values"] == 4000
    assert found["missing"] == 0
    assert found["outcome"]["lowest"] == 0
    (best,) = [each for each in found["choices"] if each["recommended"]]
    assert best["highest"] == found["outcome"]["highest"]
    assert {arm["arm"] for arm in best["arms"]} == {"wild", "steady"}


def test_values_of_which_lower_are_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "minutes.csv"
    path.write_text("minutes\n" + "\n".join(str(10 + k % 11) for k in range(300)))
    assert main(["range", str(path), "--value", "minutes", "--better", "lower"]) == 0
    shown = capsys.readouterr().out
    assert "10 to 20" in shown
    assert 'Bandit(…, outcome=Scale(10, 20, better="lower"))' in shown
    assert '"better": "lower"}' in shown


def test_a_wide_range_limits_bets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One value far beyond the others: most of what the full range costs is not the spread of values."""
    path = tmp_path / "log.csv"
    path.write_text("value\n" + "\n".join(["5", "6"] * 50_000) + "\n3000\n")
    assert main(["range", str(path), "--quantile", "0.99", "--wide"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "small bets" in line]
    assert "× " in line


def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/questions.md has the log as a Python example, and the table as text."""
    page = (Path(__file__).parents[2] / "docs" / "questions.md").read_text()
    (example,) = re.findall(r"(rng = np.random.default_rng\(2\)\n.*?)found = ", page, flags=re.DOTALL)
    names: dict[str, Any] = {"np": np}
    exec(example, names)
    rows = [f"{button},{revenue}" for button, revenue in zip(names["button"], names["revenue"], strict=True)]
    (tmp_path / "orders.csv").write_text("\n".join(["button,revenue", *rows]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (command,) = re.findall(r"^belated (range .*)", page, flags=re.MULTILINE)
    assert main(command.split()) == 0
    assert f"```text\n{capsys.readouterr().out}```" in page


def test_refusals(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused_line(capsys, ["range", str(log), "--value", "euros"], "'euros'", "arm, revenue")
    refused_line(capsys, ["range", str(log), "--quantile", "2"], "quantile", "2", "0.5")
    refused_line(capsys, ["range", str(tmp_path / "none.csv")], "none.csv")
    log.write_text(log.read_text() + "wild,lots\nwild,more\n")
    refused_line(capsys, ["range", str(log)], "'lots'", "--bad-rows leave-out")
    rejected = tmp_path / "rejected.csv"
    assert main(["range", str(log), "--bad-rows", "leave-out", "--rejected", str(rejected)]) == 0
    assert "2 of 4,002" in capsys.readouterr().err
    assert rejected.read_text().splitlines()[1].split(",")[:3] == ["4002", "revenue", "lots"]
