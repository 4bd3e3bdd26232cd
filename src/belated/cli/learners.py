"""`belated learners` and `belated cells`: what there is to play with."""

import argparse
from typing import Any

from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.league import suite
from belated.learners import Learner, catalogue, find, published
from belated.learners.published import NOTATION
from belated.report import tables


def learners(options: argparse.Namespace, out: Output) -> int:
    """List the catalogue, or describe one learner."""
    known = list(catalogue.values())
    if options.markdown:
        if options.name is not None or options.json:
            raise InvalidValue("--markdown prints the table of all learners; it goes with neither NAME nor --json")
        rows = [[f"[`{name}`](#{name})", *rest] for name, *rest in tables.catalogue_rows(known)]
        out.raw((tables.markdown_table(tables.CATALOGUE_HEADER, rows) + "\n").encode())
    elif options.name is not None:
        learner = find(options.name)
        out.result(_details(learner), tables.learner_details(learner, out.width))
    else:
        table = tables.learner_table(known)
        symbols = ["endless?", "certain?"] if table.fit(out.width).left_out else list(NOTATION)
        more = "`belated learners NAME` describes a learner: its bounds, parameters and paper"
        out.result([_facts(learner) for learner in known], table, tables.notation(symbols, out.width), more)
    return 0


def _facts(learner: Learner) -> dict[str, Any]:
    """Return what the table has of a learner; null where nothing is published."""
    bounds = published.get(learner.name)
    return {
        "name": learner.name,
        "summary": learner.summary,
        "paper": learner.paper,
        "needs": learner.needs,
        "adversarial_bound": bounds.adversarial if bounds else None,
        "stochastic_bound": bounds.stochastic if bounds else None,
        "endless": bounds.endless if bounds else None,
        "deterministic": learner.deterministic,
    }


def _details(learner: Learner) -> dict[str, Any]:
    """Return all about a learner. A default of null is one that is not known unless it is given."""
    parameters = [
        {
            "name": each.name,
            "default": each.default,
            "low": None if each.choices else each.low,
            "high": None if each.choices else each.high,
            "choices": each.choices,
            "summary": each.summary,
        }
        for each in learner.parameters
    ]
    return {**_facts(learner), "parameters": parameters}


def cells(options: argparse.Namespace, out: Output) -> int:
    """List cells of the suite."""
    found = suite.find(options.patterns) if options.patterns else tuple(suite.suite.values())
    if options.family:
        found = suite.within(found, options.family)
    if not options.patterns and (not options.family or "real" in options.family):
        for name, reason in suite.left_out.items():
            out.note(f"cell {name} is left out: {reason}")
    data = [
        {
            "id": cell.id,
            "family": cell.family,
            "title": cell.title,
            "environment": cell.environment.title,
            "delays": cell.delays.title,
            "arms": cell.environment.n_arms,
            "rounds": cell.rounds,
        }
        for cell in found
    ]
    out.result(data, tables.cells_table(found))
    return 0
