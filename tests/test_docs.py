"""What the documentation shows is run; what the package has is documented."""

import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import belated
from belated import learners
from belated.cli.main import main
from belated.cli.parser import parser
from belated.delays import Delays
from belated.environments import Environment
from belated.league import suite
from belated.league.comparison import ComparisonPlan
from belated.learners.published import NOTATION

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(belated.__path__, "belated."))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


ALONE = [
    page for page in PAGES if page.name != "service.md"
]  # that one needs a service: tests/service/test_conversions.py


@pytest.mark.parametrize("page", [page for page in ALONE if blocks(page, "python")], ids=lambda page: page.name)
def test_examples_on_pages_run(page: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert names


def test_the_readme_has_live_examples_and_an_experiment() -> None:
    assert len(blocks(ROOT / "README.md", "python")) == 3
    (settings,) = blocks(ROOT / "README.md", "toml")
    assert len(ComparisonPlan.from_settings(tomllib.loads(settings)).environments) == 2


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what it is"
    failed, _ = doctest.testmod(module)
    assert failed == 0


EXAMPLES = sorted((ROOT / "examples").glob("*_*.py"))
LONG = "replay_log.py"


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] if path.name == LONG else [], id=path.name) for path in EXAMPLES],
)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(example.parent)  # as Python does for a program
    runpy.run_path(str(example), run_name="__main__")
    sys.modules.pop("skeleton_learner", None)
    assert "regret" in capsys.readouterr().out


def test_every_learner_and_every_word_is_documented() -> None:
    page = (ROOT / "docs" / "learners.md").read_text()
    concepts = (ROOT / "docs" / "concepts.md").read_text()
    for name in learners.catalogue:
        assert f"## `{name}`\n" in page
    for name, member in {**Environment.members, **Delays.members}.items():
        if not member.__module__.startswith("belated."):
            continue  # made by another test
        assert f"`{name}" in concepts or f"{name.capitalize()}(" in concepts, name


def test_every_family_of_cells_is_documented() -> None:
    page = (ROOT / "docs" / "league.md").read_text()
    for name, cells in suite.by_family(suite.suite.values()).items():
        assert f"| `{name}` | {len(cells)} | {suite.FAMILIES[name]} |\n" in page
    assert f"| `full`, the default | all {len(suite.suite)} |" in page
    assert f"| `paper` | {len(suite.paper)} cells" in page
    assert f"| `practice` | {len(suite.practice)} cells" in page
    for cell in suite.practice.values():
        name = cell.id.partition("/")[0]
        known = [name.rpartition("-k")[0], name.split("-")[0], "-".join(name.split("-")[:2])]
        assert any(f"`{each}-" in page for each in known if each), cell.id


def test_the_table_of_learners_is_that_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    """`belated learners --markdown` prints what the page must have."""
    assert main(["learners", "--markdown"]) == 0
    page = (ROOT / "docs" / "learners.md").read_text()
    assert capsys.readouterr().out.strip() in page
    for symbol, meaning in NOTATION.items():
        assert f"| {symbol} | {meaning.replace('|', chr(92) + '|')} |" in page


def test_every_learner_says_what_it_is() -> None:
    """Its docstring has the paper's year and formulas, and says which constants are recalled."""
    for name, learner in learners.catalogue.items():
        module = importlib.import_module(f"belated.learners.{name}")
        text = module.__doc__ or ""
        year = re.search(r"\d{4}", learner.paper)
        assert year is None or year.group() in text, name
        assert "=" in text or "proportional" in text or "play the arm" in text, name
        recalled = [each for each in learner.parameters if each.summary.endswith("; recalled")]
        assert not recalled or "recalled" in text, name


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_commands_of_the_runbook_can_be_given() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    lines = [line for block in re.findall(r"```\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    lines += re.findall(r"`(belated [^`]+)`", text)
    commands = [found[0] for line in lines if (found := re.search(r"\bbelated (ledger|keys|serve|warm)\b.*", line))]
    assert len(commands) > 15
    for command in commands:
        parser().parse_args(shlex.split(re.sub(r"\$\(.*?\)", "04", command), comments=True)[1:])
