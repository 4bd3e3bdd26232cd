"""The commands about theory: bounds and audit, from what was asked for to the files that are left."""

import argparse
import difflib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from belated import bounds as known
from belated import learners, specs
from belated.audit import audit as audits
from belated.delays import Delays
from belated.delays.recorded import Recorded, read_delays
from belated.environments import Bernoulli
from belated.environments.environment import check_arms
from belated.errors import check_count
from belated.league import suite
from belated.league.suite import ROUNDS, Cell
from belated.report import figures, tables
from belated.simulation import simulate, spaced_checkpoints

Say = Callable[[str], None]

HORIZONS = 16
"""At how many horizons a bound is computed to be drawn."""


def bounds(options: argparse.Namespace, say: Say) -> int:
    """`belated bounds`: its exit status."""
    cell = _problem(options)
    instance = cell.instance(options.delay_constant)
    facts, table = known.facts(instance), known.table(instance)
    result = None
    if options.learners:
        result = simulate(
            options.learners,
            cell.environment,
            cell.delays,
            rounds=cell.rounds,
            replications=options.replications,
            seed=options.seed,
        )
    if options.json:
        say(json.dumps(_described(cell, facts, table, result), indent=1, ensure_ascii=False))
        return 0
    say(f"{cell.title}; {cell.rounds:,} rounds")
    if cell.delays.by != "round":
        say(f"delays depend on the {cell.delays.by}: the longest of each round is taken")
    say("")
    say(tables.facts_table(facts))
    say("")
    say(tables.bounds_table(table))
    if result is None:
        return 0
    say("")
    say(f"measured: mean and 95 % interval of {options.replications} replications")
    for name in result.learners:
        say(f"  {name}  {tables.regret(result.final(name))}")
    options.out.mkdir(parents=True, exist_ok=True)
    horizons = spaced_checkpoints(cell.rounds, HORIZONS, "log")
    horizons = horizons[horizons >= cell.rounds / 1000]
    grown = [known.table(cell.at(int(horizon)).instance(options.delay_constant)) for horizon in horizons]
    try:
        drawing = figures.draw_bounds(cell.title, result, horizons.tolist(), grown)
        say("written: " + ", ".join(str(path) for path in figures.save(drawing, options.out / "bounds")))
    except ImportError as error:
        say(f"no figure: {error}")
    return 0


def _problem(options: argparse.Namespace) -> Cell:
    """A cell of the suite, or one made from delays, arms and gaps."""
    wanted = options.problem
    if wanted in suite.suite:
        if options.arms is not None or options.gaps is not None:
            raise ValueError(f"{wanted} has its own arms and gaps; --arms and --gaps are for delays")
        cell = suite.suite[wanted]
        return cell.at(check_count("rounds", options.rounds)) if options.rounds is not None else cell
    rounds = options.rounds if options.rounds is not None else ROUNDS
    if Path(wanted).is_file():
        values = read_delays(wanted)
        if not values or (options.rounds or 0) > len(values):
            needed = f"; {options.rounds} are asked for" if options.rounds else ""
            raise ValueError(f"{wanted} holds {len(values)} delays{needed}")
        rounds = check_count("rounds", options.rounds) if options.rounds is not None else len(values)
        delays: Any = Recorded(values)
    elif ":" not in wanted and ("/" in wanted or "." in wanted or "*" in wanted):
        raise ValueError(f"{wanted!r} is neither a file nor a cell of the suite{_nearest(wanted)}")
    else:
        delays = Delays.find(wanted)
    arms = check_arms(10 if options.arms is None else options.arms)
    given = [0.1] if options.gaps is None else options.gaps
    gaps = given * (arms - 1) if len(given) == 1 else given
    if len(gaps) != arms - 1 or not all(0.0 <= gap <= 1.0 for gap in gaps):
        raise ValueError(f"gaps is {given}; one number from 0 to 1, or {arms - 1} of them, is needed")
    best = (1.0 - max(gaps)) / 2.0
    return Cell(wanted, Bernoulli([best, *(best + gap for gap in gaps)]), delays, check_count("rounds", rounds))


def _nearest(wanted: str) -> str:
    close = difflib.get_close_matches(wanted, suite.suite, n=3)
    return f". Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _described(cell: Cell, facts: Any, table: Any, result: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "problem": cell.title,
        "facts": {fact.symbol: fact.value for fact in facts},
        "bounds": [bound._asdict() for bound in table],
    }
    if result is not None:
        found["measured"] = {
            name: dict(zip(("mean", "low", "high"), map(float, result.final(name)), strict=True))
            for name in result.learners
        }
    return found


def audit(options: argparse.Namespace, say: Say) -> int:
    """`belated audit`: its exit status, 1 where a statement is broken."""
    name, settings = specs.parse(options.learner)
    for setting in options.set:
        settings |= specs.parse(f"{name}:{setting}")[1]
    tuned = learners.tune(name, **settings)
    found = []
    for cell in suite.find(options.cells):
        result = audits.run(
            tuned,
            cell.environment,
            cell.delays,
            rounds=options.rounds if options.rounds is not None else cell.rounds,
            replications=options.replications,
            seed=options.seed,
        )
        found.append({"cell": cell.id, **result.as_json()})
        if not options.json:
            say(
                f"{tuned.label}; {cell.id}: {result.problem}; {result.rounds:,} rounds, {_counted(result.replications)}"
            )
            say("")
            say(tables.audit_table(result))
            say("")
            options.out.mkdir(parents=True, exist_ok=True)
            stem = options.out / cell.id.replace("/", "-")
            stem.with_suffix(".json").write_text(json.dumps(found[-1], indent=1, ensure_ascii=False) + "\n")
            written = [stem.with_suffix(".json")]
            try:
                written += figures.save(figures.draw_slack(result), stem)
            except ImportError as error:
                say(f"no figure: {error}")
            say("written: " + ", ".join(str(path) for path in written))
    if options.json:
        say(json.dumps(found[0] if len(found) == 1 else found, indent=1, ensure_ascii=False))
    return 0 if all(each["holds"] for each in found) else 1


def _counted(replications: int) -> str:
    return "1 replication" if replications == 1 else f"{replications} replications"
