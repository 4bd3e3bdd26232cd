"""Mutation testing by sample: break the package in places drawn by a seed, and see whether the tests notice.

    python experiments/mutants.py map              # which test calls which function, once for a version of the tests
    python experiments/mutants.py run --seed 1     # 100 mutants, the tests that call the function, the survivors

`map` runs the tests under `sys.monitoring`, which needs Python 3.12 or newer, and writes `results/mutants/calls.json`.
Processes that tests start are watched as well; what they call counts for all tests of the file. A compiled function is
not seen by Python: its tests are those that call a Python function of the same file or, where there is none, the tests
of the packages that use compiled code.

`run` changes one expression or statement at a time in a copy of the package. It runs the tests that could see the
change, quickest first, until one fails; a failure counts when it happens twice, and not without the change. The same
seed draws the same places as long as their lines stay as they are: places are ranked by a hash of the seed and of what
stands there.
"""

import argparse
import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "belated"
RESULTS = ROOT / "results" / "mutants"
WATCH = Path(__file__).parent / "mutant_calls"
COMPILED_TESTS = ("tests/core", "tests/learners", "tests/live", "tests/simulation", "tests/inference", "tests/bounds")
"""Where compiled functions are tested, which no map can see being called."""
MAX_SECONDS = 90.0
"""How many seconds of tests, by their own durations, are run for one mutant."""
FIRST = 30
"""How many tests are tried before the others are collected."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min", "all": "any", "any": "all"}


class Mutant(NamedTuple):
    """One change: these characters of a file, replaced."""

    file: str
    line: int
    function: str
    """The qualified name of the innermost function; empty for the body of a module or class."""
    begin: int
    end: int
    old: str
    new: str

    def rank(self, seed: int, occurrence: int) -> str:
        what = f"{seed} {self.file} {self.function} {self.old} {self.new} {occurrence}"
        return hashlib.sha256(what.encode()).hexdigest()

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:70] for text in (self.old, self.new))
        return f"{self.file}:{self.line} {self.function or '(module)'}: {old}  ->  {new}"


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node can be changed into."""
    changed: Any
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            changed = deepcopy(node)
            changed.ops[place] = SWAPS[type(operator)]()
            yield changed
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        changed = deepcopy(node)
        changed.op = SWAPS[type(node.op)]()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        changed = deepcopy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)) or isinstance(node, ast.Raise):
        yield ast.Pass()
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
        changed = deepcopy(node)
        changed.func = ast.Name(NAMES[node.func.id])
        yield changed


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    text = path.read_text()
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.encode()

    def place(node: Any) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def visit(node: Any, scope: tuple[str, ...], function: str) -> Iterator[Mutant]:
        child: Any
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                inner, called = scope, function
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    called = ".".join([*scope, child.name])
                    inner = (*scope, child.name, "<locals>")
                elif isinstance(child, ast.ClassDef):
                    inner = (*scope, child.name)
                elif isinstance(child, ast.JoinedStr):  # words
                    continue
                for changed in variants(child):
                    begin, end = place(child)
                    line = getattr(child, "lineno", 0)
                    new = ast.unparse(ast.fix_missing_locations(changed))
                    if isinstance(child, ast.stmt):
                        indent = " " * child.col_offset
                        new = new.replace("\n", "\n" + indent)
                    else:
                        new = f"({new})"
                    old = raw[begin:end].decode()
                    if not (isinstance(child, ast.While) or (isinstance(child, ast.If) and old.startswith("elif"))):
                        yield Mutant(path.relative_to(ROOT).as_posix(), line, called, begin, end, old, new)
                yield from visit(child, inner, called)

    yield from visit(ast.parse(text), (), "")


def draw(seed: int, number: int, files: Iterable[Path]) -> list[Mutant]:
    """Return mutants drawn at random, all with the same chance."""
    ranked: list[tuple[str, Mutant]] = []
    for path in files:
        seen: Counter[tuple[str, str, str]] = Counter()
        for mutant in mutants_of(path):
            what = mutant.function, mutant.old, mutant.new
            ranked.append((mutant.rank(seed, seen[what]), mutant))
            seen[what] += 1
    return [mutant for _, mutant in sorted(ranked)[:number]]


class Calls:
    """Which tests call which function, and how long each test takes."""

    def __init__(self, path: Path) -> None:
        found = json.loads(path.read_text())
        self.seconds: dict[str, float] = found["seconds"]
        self.by_function: dict[str, list[str]] = found["calls"]
        self.by_file: dict[str, set[str]] = defaultdict(set)
        for function, tests in self.by_function.items():
            self.by_file[function.partition("::")[0]].update(tests)

    def tests_for(self, mutant: Mutant) -> tuple[list[str], bool]:
        """Return the tests that could see a mutant, quickest first, and whether some were left out for time."""
        seen: Iterable[str] = self.by_function.get(f"{mutant.file}::{mutant.function}", ()) if mutant.function else ()
        if not seen:
            seen = self.by_file.get(mutant.file, ())
        if not seen or (mutant.function and f"{mutant.file}::{mutant.function}" not in self.by_function):
            compiled = mutant.file.startswith(("src/belated/core", "src/belated/learners"))
            if compiled:
                seen = set(seen) | {test for test in self.seconds if test.startswith(COMPILED_TESTS)}
        stem = Path(mutant.file).stem
        near = f"tests/{Path(mutant.file).parts[2]}/"

        def order(test: str) -> tuple[bool, bool, float]:
            return f"test_{stem}" not in test and f"[{stem}" not in test, near not in test, self.seconds.get(test, 1.0)

        chosen: list[str] = []
        total = 0.0
        for test in sorted(seen, key=order):
            total += self.seconds.get(test, 1.0)
            if total > MAX_SECONDS and chosen:
                return chosen, True
            chosen.append(test)
        return chosen, False


class Bench:
    """A copy of the package, in which one mutant at a time is tried."""

    def __init__(self, number: int, folder: Path) -> None:
        self.root = folder / str(number)
        shutil.rmtree(self.root, ignore_errors=True)
        ignored = shutil.ignore_patterns("belated-*")
        for name in ("src", "tests", "examples", "experiments", "docs", "benchmarks"):
            shutil.copytree(ROOT / name, self.root / name, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, self.root)
        self.environment = os.environ | {
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(self.root / "numba"),
        }

    def fails(self, tests: list[str], seconds: float) -> str:
        """Return the first test that fails, or nothing."""
        listed = self.root / "chosen.txt"
        listed.write_text("\n".join(tests))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        process = subprocess.Popen(
            [*command, f"@{listed}"],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return "(no end)"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        if process.returncode == 0:
            return ""
        unknown = {line.partition(f"{self.root}/")[2] for line in output.splitlines() if "not found: " in line}
        if unknown:  # names that pytest prints and does not take
            return self.fails([test for test in tests if not test.startswith(tuple(unknown))], seconds)
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0].partition(" ")[2].partition(" - ")[0] if failed else "(pytest ended) " + output[-300:]

    def notice(self, mutant: Mutant, tests: list[str], seconds: float) -> str:
        """Return the first test that fails twice with a mutant, and not without it; or nothing."""
        while tests:
            with self.changed(mutant):
                noticed = self.fails(tests, seconds)
                if not noticed or noticed not in tests:
                    return noticed
                again = self.fails([noticed], seconds)
            if again and not self.fails([noticed], seconds):
                return noticed
            tests = tests[tests.index(noticed) + 1 :]  # it fails by chance, or in any case
        return ""

    def attempt(self, mutant: Mutant, tests: list[str], seconds: float) -> str:
        """Return the test that noticed a mutant, or nothing."""
        return next(filter(None, (self.notice(mutant, part, seconds) for part in (tests[:FIRST], tests[FIRST:]))), "")

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        before = path.read_bytes()
        try:
            path.write_bytes(before[: mutant.begin] + mutant.new.encode() + before[mutant.end :])
            yield
        finally:
            path.write_bytes(before)


def run(arguments: argparse.Namespace) -> int:
    """Try mutants, a few at a time; print each, and who survived."""
    calls = Calls(arguments.calls)
    files = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py")
    chosen = draw(arguments.seed, arguments.mutants, files)
    benches: SimpleQueue[Bench] = SimpleQueue()
    for number in range(arguments.processes):
        benches.put(Bench(number, RESULTS / "benches"))

    def attempt(mutant: Mutant) -> dict[str, Any]:
        bench = benches.get()
        try:
            tests, is_cut = calls.tests_for(mutant)
            limit = 120 + 10 * sum(calls.seconds.get(test, 1.0) for test in tests)
            begun = time.monotonic()
            noticed = bench.attempt(mutant, tests, limit) if tests else ""
            took = time.monotonic() - begun
        finally:
            benches.put(bench)
        verdict = "killed" if noticed else "survived" if tests else "no test"
        more = f" by {noticed}" if noticed else ", not all tests were run" if is_cut else ""
        print(f"{verdict:9}{took:5.0f} s {len(tests):5} tests  {mutant}{more}", flush=True)
        return {"mutant": str(mutant), "verdict": verdict, "noticed": noticed, "seconds": took, "tests": len(tests)}

    with ThreadPoolExecutor(arguments.processes) as pool:
        found = list(pool.map(attempt, chosen))
    arguments.out.write_text(json.dumps(found, indent=1))
    killed = sum(each["verdict"] == "killed" for each in found)
    print(f"\nseed {arguments.seed}: {killed} of {len(found)} mutants were killed; these were not:")
    print("\n".join(each["mutant"] for each in found if each["verdict"] != "killed"))
    return 0


def read_calls(folder: Path) -> tuple[dict[str, float], dict[str, set[str]], dict[str, set[str]]]:
    """Return the duration of each test, the tests that call each function, and those whose processes call it."""
    seconds: dict[str, float] = {}
    calls: dict[str, set[str]] = defaultdict(set)
    of_files: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().split("\n"):
            try:
                test, found, took = json.loads(line)
            except ValueError:
                continue  # its process was killed while it wrote
            if took is not None:
                seconds[test] = took
            for function in found:
                (calls if took is not None else of_files)[function].add(test)
    return seconds, calls, of_files


def make_map(arguments: argparse.Namespace) -> int:
    """Run the tests, and write down what they call."""
    if sys.version_info < (3, 12):
        raise SystemExit("the map needs Python 3.12 or newer, for sys.monitoring")
    folder = arguments.calls.parent / "calls"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python_path = os.pathsep.join([str(WATCH), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = os.environ | {"BELATED_CALLS": str(folder), "PYTHONPATH": python_path}
    tests = arguments.tests or ["tests"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "calls_of_tests",
        "-m",
        "not slow",
        "-n",
        "3",
        "--dist",
        "loadfile",
    ]
    status = subprocess.call([*command, "--timeout=600", *tests], cwd=ROOT, env=environment)
    seconds, calls, of_files = read_calls(folder)
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in seconds:
        by_file[test.partition("::")[0]].append(test)
    for function, starters in of_files.items():
        for file in {test.partition("::")[0] for test in starters}:
            calls[function].update(by_file[file])
    arguments.calls.write_text(json.dumps({"seconds": seconds, "calls": {k: sorted(v) for k, v in calls.items()}}))
    print(f"{len(seconds)} tests, {len(calls)} functions: {arguments.calls}; pytest ended with {status}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=Path, default=RESULTS / "calls.json", help="the map of the tests")
    commands = parser.add_subparsers(required=True)
    mapping = commands.add_parser("map", help="run the tests and write down what they call")
    mapping.add_argument("tests", nargs="*")
    mapping.set_defaults(do=make_map)
    running = commands.add_parser("run", help="try mutants")
    running.add_argument("--seed", type=int, default=1)
    running.add_argument("--mutants", type=int, default=100)
    running.add_argument("--processes", type=int, default=2)
    running.add_argument("--out", type=Path, default=RESULTS / "found.json")
    running.set_defaults(do=run)
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    status: int = arguments.do(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
