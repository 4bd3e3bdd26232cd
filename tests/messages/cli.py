"""Messages of commands and of the service's pages."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from belated.api.types import Experiment
from belated.cli.main import main
from belated.ledger import open_ledger
from belated.ledger.commands import Decide
from belated.ledger.events import ExperimentSettings
from belated.ledger.processor import CommandProcessor
from belated.service.errors import ApiError
from belated.service.pages import experiment
from belated.service.pages.forms import new_experiment
from belated.service.pages.parts import holding, problems
from belated.service.simulate.plan import plan_of
from belated.service.views import WaitsFor

LOG = "arm,reward\n" + "a,1\nb,0\n" * 20
BAD = "arm,reward\na,1\nb,x\nc,1\n"
VISITS = "page,revenue\n" + "a,10\nb,90\n" * 20 + "b,900\n"
FILES = {"log_csv": LOG, "visits_csv": VISITS, "bad_csv": BAD}


def command(words: str, **files: str) -> Callable[[Path], object]:
    """A command in a folder with these files; the keyword `log_csv` is the file log.csv."""

    def run(folder: Path) -> None:
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        main(words.split())

    return run


def on_a_ledger(words: str) -> Callable[[Path], object]:
    """A command on a ledger with an experiment of three decisions."""

    def run(folder: Path) -> None:
        store = f"sqlite:///{folder / 'ledger.db'}"
        with closing(open_ledger(store)) as ledger:
            ledger.create(ExperimentSettings("button", ["old", "new"], "uniform", {}, 7, "wait"), 0, 10)
            CommandProcessor(ledger).run([Decide("button", ["a", "b", "c"])])
        main([*words.split(), "--store", store])

    return run


COMMANDS = {
    "compare --learners robustt": "an unknown learner",
    "compare --rounds -3": "a number of rounds that cannot be",
    "compare --delays pareto:shape=x": "a parameter that is no number",
    "compare --environments bernoulli:means=[0.5,7]": "a mean that cannot be",
    "compare missing.toml": "a file that is not there",
    "compare --learners ucb ucb": "a learner given twice",
    "compare --learners robst:delay_constant": "neither a module nor a learner",
    "compare --delays none:x": "no key and value",
    "learners ucb --markdown": "one learner as markdown",
    "cells stochastic-k11/*": "an unknown cell",
    "cells --family rythm": "an unknown family",
    "league --suite quick --family trials": "no cell of a family",
    "sweep robust": "nothing to sweep",
    "sweep ewma:weight=0.1,0.2,exploration=0,0.1": "two parameters with several values",
    "bounds": "no problem",
    "bounds stochastic-k10/100 --delays none": "two problems",
    "bounds stochastic-k10/100 --arms 3": "arms of a cell",
    "bounds pareto:shape=1,scale=10": "a law in place of a cell",
    "bounds --delays none --gaps 1.5": "a gap that cannot be",
    "bounds stochastic-k10/100 --learner ucb": "a learner whose constant is no matter",
    "audit stochastic-k10/100 --split --learner ucb": "a split of a learner that follows no leader",
    "trial --patients 9": "neither rates nor outcomes",
    "trial --patients 9 --rates 0.3 0.3": "the same rates",
    "trial --patients 9 --rates 0.3 0.5 --delay dropout:share=0.9": "outcomes that never come",
    "trial --patients 9 --rates 0.3 0.5 --stop never --look-every 4": "looks that nobody takes",
    "trial --patients 9 --rates 0.3 0.5 --figure trial.jpeg": "a kind of figure",
    "completion bash": "completion",
    "range none.csv": "a log that is not there",
    "ledger verify --store sqlite:///no.db": "no ledger",
    "ledger verify --store mysql://localhost/x": "a kind of store",
    "keys list --store belated.db": "no kind of store",
    "serve --port 70000": "a port that cannot be",
    "serve --workers 0": "a number of workers that cannot be",
}
LOGS = {
    "estimates log.csv --control c": "an unknown control",
    "estimates log.csv --reward money": "an unknown column of rewards",
    "estimates log.csv --value reward": "values without a range",
    "estimates visits.csv --arm page": "units without a range",
    "estimates visits.csv --arm page --lowest 9 --highest 0": "a range from above to below",
    "estimates visits.csv --arm page --lowest 0 --highest 100": "values in units",
    "estimates bad.csv": "a bad row",
    "estimates bad.csv --arms a b --bad-rows leave-out --rejected rejected.csv": "bad rows left out",
    "estimates log.csv --figure course.txt": "a kind of figure",
    "range visits.csv --value euros": "an unknown column",
    "range visits.csv --quantile 2": "a quantile that cannot be",
    "replay log.csv --html page.txt": "a name of a page",
    "replay log.csv --deadline 3 --deadline-after 1h": "two deadlines",
    "replay log.csv --missing-loss 1": "a loss without a deadline",
    "replay log.csv --deadline-after soon": "a time that is none",
}
ON_A_LEDGER = {
    "estimates nobody": "an unknown experiment",
    "estimates button --arm x": "a column of an experiment",
    "ledger verify": "a sound ledger",
    "ledger verify tow": "an unknown experiment to verify",
    "ledger export tow": "an unknown experiment to export",
    "ledger export button --after -1": "an event that cannot be",
    "keys revoke nobody": "an unknown key",
}


def form(**given: str) -> Callable[[Path], object]:
    """A form for a new experiment."""

    def send(_: Path) -> str:
        try:
            new_experiment({"name": "one", "arms": "a\nb", "missing": "wait"} | given)
        except ApiError as error:
            return f"{error.problem.field}: {error.problem.message}"
        raise AssertionError(given)

    return send


def plan(**given: str) -> Callable[[Path], object]:
    guess = {"decisions": "1000", "arms": "blue 4\ngreen 5.5", "a_day": "200", "delay": "1.5", "bad": "alike"}
    return lambda _: plan_of(guess | given)


OUTCOMES = {"used": 0, "skipped": 0, "defaults": 0, "held": 0, "clipped": 0}
QUANTILES = {"p50": None, "p90": None, "p99": None}
SHOWN: dict[str, Any] = {
    "name": "one",
    "status": "active",
    "created": "2026-01-01T00:00:00.000000Z",
    "learner": "guarded",
    "parameters": {},
    "seed": 1,
    "missing": "wait",
    "rounds": 300,
    "outstanding": 0,
    "skipped": 0,
    "patience": None,
    "drift": 1.0,
    "delay_cost": 0.0,
    "warnings": [],
    "outcomes": OUTCOMES,
    "delays": {"rounds": QUANTILES, "seconds": QUANTILES},
    "arms": [],
    "events": 300,
}


def arm(name: str, outcomes: int) -> dict[str, Any]:
    counts = {"decisions": 150, "outcomes": outcomes}
    state = {"present": True, "probability": 0.5, "mean_loss": None, "mean_value": None}
    return {"arm": name} | counts | state


def on_the_page(**given: Any) -> Callable[[Path], object]:
    """What a page says of an experiment: its problems, and what becomes of decisions without an outcome."""

    def show(_: Path) -> str:
        state = msgspec.convert(SHOWN | given, Experiment)
        return "\n".join([*problems(state), experiment.missing(state)])

    return show


def held_up(**given: Any) -> Callable[[Path], object]:
    """What the list says of the decision that holds up the verdict."""

    def show(_: Path) -> str:
        state = msgspec.convert(SHOWN | {"delays": {"rounds": QUANTILES, "seconds": LATE}} | given, Experiment)
        found = [holding(state, WaitsFor(k, id, 0.0), 8e5) for k, id in HOLDING]
        return "\n".join(f"Decision {each['name']} {each['problem'] or each['ago']}" for each in found)

    return show


LATE = {"p50": 1.0, "p90": 60.0, "p99": 3600.0}
HOLDING = ((17, "visit-17"), (18, None), (299, "visit-299"))
DEADLINE = {"deadline": 86400.0, "loss": 1.0, "learn": "deadline"}
FORMS = {
    "without what becomes of missing outcomes": {"missing": ""},
    "a deadline below zero": {"missing": "deadline", "deadline": "-1"},
    "a deadline that is no number": {"missing": "deadline", "deadline": "soon"},
    "to learn at a deadline that is not": {"learn": "deadline"},
    "a lowest value that is no number": {"units": "own", "lowest": "nan", "highest": "1"},
    "a holdout above 1": {"holdout": "2"},
}
PLANS = {
    "no number of decisions": {"decisions": "many"},
    "more decisions than are simulated": {"decisions": "9000000000"},
    "an arm without a rate": {"arms": "blue 4\ngreen"},
    "a rate above 100": {"arms": "blue 4\ngreen 101"},
    "one arm": {"arms": "blue 4"},
    "a delay below zero": {"delay": "-1"},
    "an unknown delay of what is bad": {"bad": "later"},
}
CASES: dict[str, Callable[[Path], object]] = {
    **{f"belated: {what}": command(words) for words, what in COMMANDS.items()},
    **{f"belated: a log: {what}": command(words, **FILES) for words, what in LOGS.items()},
    **{f"belated: a ledger: {what}": on_a_ledger(words) for words, what in ON_A_LEDGER.items()},
    **{f"a form: {what}": form(**given) for what, given in FORMS.items()},
    **{f"a plan to simulate: {what}": plan(**given) for what, given in PLANS.items()},
    "a page: no outcome": on_the_page(),
    "a page: none of an arm": on_the_page(
        outcomes=OUTCOMES | {"used": 150}, arms=[arm("blue", 150), arm("green", 0)], missing=DEADLINE
    ),
    "a page: reports that never settle": on_the_page(outcomes=OUTCOMES | {"held": 150}, reports="sum"),
    "a page: a decision that holds up the verdict": held_up(),
    "a page: most were thrown away": on_the_page(outcomes=OUTCOMES | {"used": 60, "skipped": 90}),
}
