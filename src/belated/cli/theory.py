"""`belated bounds` and `belated audit`: what is proved, and whether a run keeps to it."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from belated import bounds as known
from belated import learners
from belated.audit import audit as audits
from belated.audit.split import split
from belated.cli.output import Output, plain
from belated.delays import Delays
from belated.delays.recorded import Recorded, read_delays
from belated.environments import Bernoulli
from belated.environments.environment import check_arms
from belated.errors import InvalidValue, check_count, unknown
from belated.league.suite import ROUNDS, Cell, find, suite
from belated.learners import TunedLearner
from belated.report import figures, tables
from belated.simulation import Simulation, simulate, spaced_checkpoints

HORIZONS = 16
"""At how many horizons a bound is computed to be drawn."""


def bounds(options: argparse.Namespace, out: Output) -> int:
    """Print the bounds for a problem; with learners, measure their regret and draw both."""
    constant = _delay_constant(options.learner)
    cell = _problem(options)
    instance = cell.instance(constant)
    facts, table = known.facts(instance), known.table(instance)
    result = _simulated(options, cell) if options.learners else None
    heading = f"{cell.title}; {cell.rounds:,} rounds"
    if cell.delays.by != "round":
        heading += f"\ndelays depend on the {cell.delays.by}: the longest of each round is taken"
    measured = _measured(result) if result else []
    parts: list[Any] = [heading, tables.facts_table(facts), tables.bounds_table(table)]
    if result:
        lines = [f"measured: mean and 95 % interval of {_counted(options.replications)}"]
        lines += [f"  {name}  {result.final(name).text}" for name in result.learners]
        parts.append("\n".join(lines))
    data = {
        "problem": cell.title,
        "rounds": cell.rounds,
        "facts": {fact.symbol: fact.value for fact in facts},
        "bounds": [bound._asdict() for bound in table],
        "measured": measured,
    }
    out.result(data, *parts)
    if result:
        _draw(cell, constant, result, options.out, out)
    return 0


def _delay_constant(spec: str) -> float:
    """Return the delay_constant of robust, the one parameter on which bounds depend."""
    tuned = learners.tune(spec)
    if tuned.learner != learners.find("robust"):
        raise InvalidValue(
            f"learner is {spec!r}, but only the bounds of robust depend on a parameter: robust:delay_constant=…"
            " is needed; --learners runs learners",
            "learner",
        )
    return tuned.by_name["delay_constant"]


def _problem(options: argparse.Namespace) -> Cell:
    """Return the cell that was named, or one made of delays, arms and gaps."""
    given = {"CELL": options.cell, "--delays": options.delays, "--delays-file": options.delays_file}
    used = [name for name, value in given.items() if value is not None]
    if len(used) != 1:
        found = f"{' and '.join(used)} are given" if used else "none is given"
        raise InvalidValue(f"exactly one of CELL, --delays and --delays-file is needed; {found}")
    if options.cell is not None:
        return _of_suite(options)
    rounds = options.rounds
    if options.delays is not None:
        name, delays = options.delays, Delays.find(options.delays)
        rounds = ROUNDS if rounds is None else rounds
    else:
        name, values = str(options.delays_file), read_delays(options.delays_file)
        if not values:
            raise InvalidValue(f"{name} has no delays; at least one line is needed", "delays-file")
        rounds = len(values) if rounds is None else rounds
        if rounds > len(values):
            raise InvalidValue(f"rounds is {rounds}, but {name} has {len(values)} delays", "rounds")
        delays = Recorded(values)
    arms = check_arms(10 if options.arms is None else options.arms)
    gaps = _gaps([0.1] if options.gaps is None else options.gaps, arms)
    best = (1.0 - max(gaps)) / 2.0
    return Cell(name, Bernoulli([best, *(best + gap for gap in gaps)]), delays, check_count("rounds", rounds))


def _of_suite(options: argparse.Namespace) -> Cell:
    wanted = options.cell
    if options.arms is not None or options.gaps is not None:
        raise InvalidValue(f"--arms and --gaps go with --delays and --delays-file; cell {wanted!r} has its own")
    if wanted not in suite:
        if Path(wanted).is_file():
            raise InvalidValue(f"{wanted!r} is a file, not a cell; --delays-file {wanted} reads delays from it", "cell")
        if wanted.partition(":")[0] in Delays.members:
            raise InvalidValue(f"{wanted!r} is a law of delay, not a cell; --delays {wanted} uses it", "cell")
        raise unknown("cell", wanted, suite)
    cell = suite[wanted]
    return cell if options.rounds is None else cell.at(check_count("rounds", options.rounds))


def _gaps(given: list[float], arms: int) -> list[float]:
    gaps = given * (arms - 1) if len(given) == 1 else given
    if len(gaps) != arms - 1 or not all(0.0 <= gap <= 1.0 for gap in gaps):
        raise InvalidValue(f"gaps is {given}; one number from 0 to 1, or {arms - 1} of them, is needed", "gaps")
    return gaps


def _simulated(options: argparse.Namespace, cell: Cell) -> Simulation:
    return simulate(
        options.learners,
        cell.environment,
        cell.delays,
        rounds=cell.rounds,
        replications=options.replications,
        seed=options.seed,
    )


def _measured(result: Simulation) -> list[dict[str, Any]]:
    rows = []
    for name in result.learners:
        mean, low, high = result.final(name)
        rows.append({"learner": name, "mean": mean, "low": low, "high": high})
    return rows


def _draw(cell: Cell, constant: float, result: Simulation, folder: Path, out: Output) -> None:
    """Draw bounds and regret against rounds."""
    horizons = spaced_checkpoints(cell.rounds, HORIZONS, "log")
    horizons = horizons[horizons >= cell.rounds / 1000]
    grown = [known.table(cell.at(int(horizon)).instance(constant)) for horizon in horizons]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        drawing = figures.draw_bounds(cell.title, result, horizons.tolist(), grown)
        out.note("written: " + ", ".join(str(path) for path in figures.save(drawing, folder / "bounds")))
    except ImportError as error:
        out.note(f"no figure: {error}")


def audit(options: argparse.Namespace, out: Output) -> int:
    """Audit a learner on cells, or split its regret; return 1 where a lemma is broken."""
    tuned = learners.tune(options.learner)
    look = _split if options.split else _audited
    found = []
    broken = False
    for cell in find(options.cells):
        options.out.mkdir(parents=True, exist_ok=True)
        stem = options.out / (cell.id.replace("/", "-") + ("-split" if options.split else ""))
        content, wrong, figure = look(tuned, cell, options, out)
        broken = broken or wrong
        found.append({"cell": cell.id, **content})
        stem.with_suffix(".json").write_text(json.dumps(plain(found[-1]), indent=1, ensure_ascii=False) + "\n")
        written = [stem.with_suffix(".json")]
        try:
            written += figures.save(figure(), stem) if figure else []
        except ImportError as error:
            out.note(f"no figure: {error}")
        out.note("written: " + ", ".join(str(path) for path in written))
    out.json(found)
    return 1 if broken else 0


_Look = tuple[dict[str, Any], bool, Callable[[], Any] | None]
"""What programs see of a look at a learner, whether something is broken, and what draws it."""


def _play(options: argparse.Namespace, cell: Cell) -> dict[str, Any]:
    rounds = options.rounds if options.rounds is not None else cell.rounds
    return {"rounds": rounds, "replications": options.replications, "seed": options.seed}


def _audited(tuned: TunedLearner, cell: Cell, options: argparse.Namespace, out: Output) -> _Look:
    result = audits.run(tuned, cell.environment, cell.delays, **_play(options, cell))
    rounds = f"{result.rounds:,} rounds, {_counted(result.replications)}"
    out.text(f"{tuned.label}; {cell.id}: {result.problem}; {rounds}", tables.audit_table(result))
    return _findings(result), not result.holds, lambda: figures.draw_slack(result)


def _split(tuned: TunedLearner, cell: Cell, options: argparse.Namespace, out: Output) -> _Look:
    result = split(tuned, cell.environment, cell.delays, **_play(options, cell))
    rounds = f"{result.rounds:,} rounds, {_counted(options.replications)}"
    heading = f"{tuned.label}; {cell.id}: {result.problem}; {rounds}"
    out.text(heading, tables.split_table(result), f"regret is at most the bound: {result.verdict}")
    return result.as_json(), result.broken, None


def _findings(result: audits.Audit) -> dict[str, Any]:
    """Return what programs see of an audit; what does not apply is null."""
    numbers = dict.fromkeys(("bound", "measured", "slack", "interval"))
    content = result.as_json()
    return {**content, "lemmas": [{**numbers, **row} for row in content["lemmas"]]}


def _counted(replications: int) -> str:
    return "1 replication" if replications == 1 else f"{replications} replications"
