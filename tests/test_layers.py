"""Imports point down only."""

import ast
from pathlib import Path

import belated

PACKAGE = Path(belated.__file__).parent

LAYERS = [
    [
        "errors",
        "specs",
        "kernels",
        "layout",
        "intervals",
        "progress",
        "engine",
        "frames",
        "rearrangement",
        "ids",
        "wire",
        "arguments",
    ],
    ["simplex", "pages", "chance", "families", "drift", "client"],
    ["rounds", "coins", "labels"],
    ["learners", "environments", "calendar", "snapshot", "decisions"],
    ["delays", "loop"],
    ["truth"],
    ["bandit", "player"],
    ["waiting", "ledger"],
    ["instance", "service"],
    ["bounds"],
    ["suite", "replication", "statements"],
    ["simulation"],
    ["audit", "comparison", "league"],
    ["standings"],
    ["tables"],
    ["figures"],
    ["runs", "theory"],
    ["report"],
    ["cli"],
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


def imports(path: Path) -> set[str]:
    """The modules of the package that a file imports when it runs (not for types alone)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "belated":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {belated._HOMES.get(name.name, name.name) for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("belated.")}
    return found & set(HEIGHT)


def test_every_module_has_its_layer() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert modules - {"__init__", "__pycache__"} == set(HEIGHT)


def test_imports_point_down() -> None:
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts == ("__init__",):
            continue
        wrong += [(path.name, name) for name in imports(path) - {parts[0]} if HEIGHT[name] >= HEIGHT[parts[0]]]
    assert wrong == []


def test_learners_know_nothing_of_rounds_or_of_each_other() -> None:
    for path in (PACKAGE / "learners").glob("*.py"):
        if path.stem not in ("__init__", "learner", "knowledge", "published"):
            assert imports(path) <= {"simplex", "pages", "chance", "kernels", "layout", "learners"}, path.name
