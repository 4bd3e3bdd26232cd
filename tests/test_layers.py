"""Imports point down, from level to level; docs/architecture.md draws the levels."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import belated

PACKAGE = Path(belated.__file__).parent
ROOT = Path(__file__).parents[1]

LEVELS = [
    {"errors"},
    {"api", "core", "logs", "specs", "templates"},
    {"client", "delays", "environments", "inference", "learners", "simplex"},
    {"live", "simulation"},
    {"bounds", "ledger", "trial"},
    {"audit", "league", "replay", "service"},
    {"report"},
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LEVELS) for name in names}
PUBLIC = [
    "Bandit",
    "audit",
    "bounds",
    "client",
    "delays",
    "environments",
    "inference",
    "league",
    "learners",
    "logs",
    "replay.replay_log",
    "simplex",
    "simulate",
    "simulation.replay",
    "suite",
    "trial.design",
]


def imports(path: Path) -> set[str]:
    """The entries of the package that a file imports, also within functions, but not for types alone."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "belated":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {belated._HOMES.get(name.name, name.name) for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("belated.")}
    return found - {"__version__"}


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's code, without what is for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    return tree


def sources() -> list[tuple[str, Path]]:
    """(entry of the package, file) of every file but the package's own __init__."""
    files = [(path.relative_to(PACKAGE).with_suffix("").parts[0], path) for path in sorted(PACKAGE.rglob("*.py"))]
    return [(entry, path) for entry, path in files if entry != "__init__"]


def test_every_entry_has_its_level() -> None:
    assert {entry for entry, _ in sources()} == set(HEIGHT)
    assert len(LEVELS) <= 8
    assert len([path for path in PACKAGE.iterdir() if path.name != "__pycache__"]) <= 25


def test_imports_point_down() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for entry, path in sources()
        for name in imports(path) - {entry}
        if HEIGHT[name] >= HEIGHT[entry]
    ]
    assert wrong == []


def test_files_of_a_package_do_not_import_each_other_in_a_circle() -> None:
    """Within a package, too: who imports whom is a tree of questions that ends."""
    needs: dict[str, set[str]] = {}
    for _, path in sources():
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        needs[name] = set()
        for node in tree_of(path).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("belated."):
                module = node.module.removeprefix("belated.")
                deeper = {f"{module}.{alias.name}" for alias in node.names}
                known = {each for each in deeper if (PACKAGE / (each.replace(".", "/") + ".py")).exists()}
                needs[name] |= known or {module}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for each in needs.get(name, ()):
                visit(each, (*above, name))
            done.add(name)

    for name in needs:
        visit(name, ())
    assert len(done) > 100


def test_the_picture_is_that_of_the_documentation() -> None:
    """docs/architecture.md draws the levels from the top, one a line."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = re.search(r"```text\n(8 .*?)```", page, flags=re.DOTALL)
    assert drawn
    lines = [line for line in drawn.group(1).splitlines() if line.strip()]
    assert [set(line.split()[1:]) for line in lines] == LEVELS[::-1]


def test_learners_know_nothing_of_the_protocol_or_of_simulations() -> None:
    for path in (PACKAGE / "learners").glob("*.py"):
        if path.stem in ("__init__", "learner"):
            continue
        assert imports(path) <= {"core", "learners"}, path.name
        assert "core.rounds" not in path.read_text(), path.name


BARE = """
import sys
from operator import attrgetter
import belated
from belated.cli.parser import parser

parser()
heavy = {"numpy", "numba", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
for path in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "belated"]:
        del sys.modules[name]
    import belated
    assert list(name for name in sys.modules if name.startswith("belated.")) == []
    attrgetter(path)(belated)
"""


def test_public_paths_work_after_a_bare_import_which_imports_nothing_heavy() -> None:
    """Each of them first, with nothing of the package imported before."""
    subprocess.run([sys.executable, "-W", "error", "-c", BARE, *PUBLIC], check=True)


def test_what_is_not_there_is_an_attribute_error() -> None:
    assert belated.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="bandits"):
        _ = belated.bandits
    assert set(PUBLIC) - {"replay.replay_log", "simulation.replay", "trial.design"} <= set(dir(belated))
