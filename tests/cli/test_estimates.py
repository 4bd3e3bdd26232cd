"""`belated estimates`: of an experiment, of a file, as a table, as JSON, as a figure."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from belated import inference
from belated.cli.main import main
from belated.ledger import open_ledger
from belated.ledger.commands import Decide
from belated.ledger.events import ExperimentSettings
from belated.ledger.processor import CommandProcessor
from support.commands import refused_line
from support.ledger_helpers import observe

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A ledger with an experiment in which `new` always succeeds and `old` never does."""
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger:
        ledger.create(ExperimentSettings("button", ["old", "new"], "uniform", {}, 7, "wait"), 0, 10)
        processor = CommandProcessor(ledger)
        ids = [f"d{k}" for k in range(120)]
        (made,) = processor.run([Decide("button", ids)])
        assert isinstance(made, list)
        processor.run([observe("button", [(each.id, float(each.arm == "old")) for each in made[:100]])])  # type: ignore[union-attr]
    return store


def test_an_experiment(store: str, capsys: Captured, tmp_path: Path) -> None:
    figure = tmp_path / "made" / "course.svg"
    assert main(["estimates", "button", "--store", store, "--control", "old", "--figure", str(figure)]) == 0
    out, err = capsys.readouterr()
    names = ["new wins", "new – old", "95 %", "100 of 120"]
    assert [name for name in names if name not in out] == []
    assert str(figure) in err
    drawing = figure.read_text()
    assert drawing.startswith("<?xml")


def test_json_has_everything(store: str, capsys: Captured) -> None:
    assert main(["estimates", "button", "--store", store, "--json", "--alpha", "0.01"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["winner"] == "new"
    assert found["alpha"] == 0.01
    assert found["used"] == 100
    assert [each["arm"] for each in found["arms"]] == ["old", "new"]


def test_a_file(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "who,treatment,ok\n" + "".join(f"{k},{'ab'[k % 2]},{k % 2 if k < 300 else ''}\n" for k in range(400))
    )
    assert main(["estimates", str(path), "--reward", "ok", "--id", "who", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(
        json.dumps(inference.estimates(inference.read_log(path, reward="ok", id="who")).as_dict())
    )
    assert (found["winner"], found["used"], found["waiting"]) == ("b", 300, 100)
    assert main(["estimates", str(path), "--reward", "ok", "--outcomes", "bounded", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcomes"] == "bounded"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("nobody", ["'nobody'"]),
        ("button --arm x", ["--arm", "'x'", "'button'"]),
        ("button --outcome-time x", ["--outcome-time", "'x'", "'button'"]),
        ("button --rejected x.csv", ["--rejected", "x.csv", "'button'"]),
        ("button --control middle", ["'middle'", "new, old"]),
        ("button --alpha 7", ["alpha", "7"]),
        ("button --figure course.txt", [".png, .svg or .pdf"]),
        ("button --figure course.gif", [".png, .svg or .pdf"]),
        ("button --deadline 0", ["deadline", "0"]),
        ("missing.csv", ["missing.csv"]),
    ],
)
def test_what_cannot_be_is_told_in_a_line(words: str, names: list[str], store: str, capsys: Captured) -> None:
    refused_line(capsys, ["estimates", *words.split(), "--store", store], *names)


def test_a_deadline_settles(store: str, capsys: Captured) -> None:
    assert main(["estimates", "button", "--store", store, "--deadline", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["used"] == 110


def test_the_columns_that_were_found_are_told(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "log.csv"
    path.write_text("variant,converted\na,1\nb,0\n")
    assert main(["estimates", str(path)]) == 0
    said = capsys.readouterr().err
    assert [name for name in ("arm is 'variant'", "reward is 'converted'") if name not in said] == []
    other = tmp_path / "log.txt"
    other.write_text("variant,converted\na,1\nb,0\n")
    refused_line(capsys, ["estimates", str(other)], "'.txt'", ".csv")


def test_columns_with_times_and_notes(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "log.csv"
    path.write_text("variant,y,day,came\na,1,2026-01-02,2026-01-03\nb,0,2026-01-01,\nb,1,2026-01-04,2026-01-04\n")
    assert main(["estimates", str(path), "--reward", "y", "--time", "day", "--outcome-time", "came", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["waiting"] == 1
    assert "arm is 'variant', reward is 'y', time is 'day', outcome_time is 'came'" in err
    assert err.count("\n") == 3  # the columns; a row out of order; a row without an outcome
    path.write_text("variant,y,took\na,1,2\nb,0,3\n")
    assert main(["estimates", str(path), "--reward", "y", "--delay", "took"]) == 0
    assert "delay is 'took'" in capsys.readouterr().err


def test_bad_rows(tmp_path: Path, capsys: Captured) -> None:
    path, rejected = tmp_path / "log.csv", tmp_path / "rejected.csv"
    path.write_text("arm,reward\na,1\nb,0\na,much\nc,1\n")
    refused_line(capsys, ["estimates", str(path)], "line 4", "reward", "'much'")
    refused_line(capsys, ["estimates", str(path), "--arms", "b", "a"], "line 4", "--bad-rows leave-out")
    arguments = ["--arms", "b", "a", "--bad-rows", "leave-out", "--rejected", str(rejected), "--json"]
    assert main(["estimates", str(path), *arguments]) == 0
    out, err = capsys.readouterr()
    assert [each["arm"] for each in json.loads(out)["arms"]] == ["b", "a"]
    names = ("2 of 4", "line 4", "'much'", "line 5", "'c'", str(rejected))
    assert [name for name in names if name not in err] == []
    rows = [line.split(",")[:3] for line in rejected.read_text().splitlines()[1:]]
    assert rows == [["4", "reward", "much"], ["5", "arm", "c"]]


@pytest.fixture
def visits(tmp_path: Path) -> str:
    """A file with revenues: page b earns 60 to 100, page a 0 to 20, and one visitor spends far more."""
    path = tmp_path / "visits.csv"
    rows = (f"{'ab'[k % 2]},{40 + 20 * (k % 7 // 3) if k % 2 else 10 * (k % 3)}" for k in range(400))
    path.write_text("page,revenue\n" + "\n".join(rows) + "\nb,900\n")
    return str(path)


def test_units_of_ones_own(visits: str, capsys: Captured, tmp_path: Path) -> None:
    figure = tmp_path / "course.svg"
    arguments = ["estimates", visits, "--arm", "page", "--lowest", "0", "--highest", "100"]
    assert main([*arguments, "--control", "a", "--figure", str(figure)]) == 0
    out, err = capsys.readouterr()
    assert [name for name in ("b wins", "mean value", "0 to 100") if name not in out] == []
    assert "mean reward" not in out
    assert [name for name in ("1 value of revenue", "0 to 100", "value is 'revenue'") if name not in err] == []
    assert figure.exists()
    assert main([*arguments, "--better", "lower", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["winner"] == "a"
    assert found["scale"] == {"lowest": 0.0, "highest": 100.0, "better": "lower"}
    assert found["arms"][0]["mean"]["value"] == pytest.approx(9.95, abs=0.1)
    assert main([*arguments, "--value", "revenue", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["winner"] == "b"


def test_an_experiment_in_units(store: str, capsys: Captured) -> None:
    """Losses from 0 to 1 are shown as values: a loss of 0 is the better end."""
    assert main(["estimates", "button", "--store", store, "--lowest", "10", "--highest", "30", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["mean"]["value"] for each in found["arms"]] == [10.0, 30.0]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", ["'revenue'", "lowest", "highest"]),
        ("--lowest 0", ["--highest"]),
        ("--highest 9", ["--lowest"]),
        ("--better lower", ["--better", "'lower'", "--lowest"]),
        ("--lowest 9 --highest 0", ["lowest is 9", "highest is 0"]),
        ("--value revenue", ["value", "'revenue'"]),
    ],
)
def test_units_that_cannot_be(words: str, names: list[str], visits: str, capsys: Captured) -> None:
    refused_line(capsys, ["estimates", visits, "--arm", "page", *words.split()], *names)
