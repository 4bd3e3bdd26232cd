"""A trial on the patients of ACTG 175, and one on the Rossi data: the tables and the figure of docs/trial.md.

    python experiments/actg175.py --figure docs/images/actg175.png          # some minutes

Patients come one by one. The outcome of each, and when it is known, is that of one of the patients who had this
treatment in the data.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import trial
from belated.logs.public import HORIZON, TREATMENTS, follow_actg175, read_actg175
from belated.report.figures import save
from belated.report.tables import markdown_table
from belated.simulation.plot import legend_columns, new_figure, settings, style
from belated.trial.course import step_ends
from belated.trial.measures import Measures
from belated.trial.plan import FIXED

Floats = NDArray[np.float64]

LEARNERS = ("guarded", "guarded:share_floor=0.1", "robust", "thompson", "klucb", "elimination")
ALIKE = ("robust", "elimination")
"""Left out of the figure: they do what fixed randomisation does."""
PATIENTS = 2_139
PACES = (0.2, 1.0, 5.0, 50.0)
EARLY = (214, 428)
"""Days after which events are counted, too: at 5 patients a day, half of them and all of them are enrolled then."""
ROSSI_PATIENTS = 432
ROSSI_PACES = (1.0, 8.0)

Row = tuple[Measures, trial.Design]
"""A design, and the one that it was simulated with."""
Study = dict[float, dict[str, Row]]
"""Patients in a unit of time -> name of the design -> what came of it; fixed randomisation first."""


def study(data: str, patients: int, paces: Sequence[float], simulations: int) -> Study:
    """Simulate each learner at each pace; all of them meet the same patients."""
    found: Study = {}
    for pace in paces:
        rows: dict[str, Row] = {}
        for learner in LEARNERS:
            design = trial.design(
                outcomes=f"public:data={data}",
                patients=patients,
                accrual=pace,
                learner=learner,
                stop="never",
                simulations=simulations,
            )
            rows.setdefault(FIXED, (design.fixed, design))
            rows[design.adaptive.name] = (design.adaptive, design)
        found[pace] = rows
    return found


def kaplan_meier(days: Floats, event: NDArray[np.bool_], until: int) -> float:
    """Return the estimated share of patients with an event within so many days, where some left before."""
    survived = 1.0
    for day in np.unique(days[event & (days <= until)]):
        survived *= 1.0 - float((event & (days == day)).sum()) / float((days >= day).sum())
    return 1.0 - survived


def data_table() -> str:
    """Return what the data say of each arm: who is left out, and what that does to the rates."""
    arms, days, event = follow_actg175()
    log = read_actg175()
    rows = []
    for arm, label in enumerate(TREATMENTS):
        all_, kept = arms == arm, log.arms == arm
        failed, took = log.rewards[kept] == 0.0, np.asarray(log.durations)[kept]
        rows.append(
            [
                label,
                str(all_.sum()),
                str(kept.sum()),
                f"{100 * failed.mean():.1f}",
                f"{100 * kaplan_meier(days[all_], event[all_], HORIZON):.1f}",
                *(f"{100 * (failed & (took <= day)).mean():.1f}" for day in EARLY),
            ]
        )
    header = ["arm", "patients", "drawn from", "events within two years, %", "Kaplan–Meier, %"]
    return markdown_table([*header, *(f"events within {day} days, %" for day in EARLY)], rows)


def pace_name(pace: float, unit: str) -> str:
    """Return a pace in words: 1 in 5 days, 50 a day."""
    return f"{pace:g} a {unit}" if pace >= 1 else f"1 in {1 / pace:g} {unit}s"


def by_pace(found: Study, unit: str, cell: Callable[[Row], str]) -> str:
    """Return a table with a row for each design and a column for each pace."""
    names = list(next(iter(found.values())))
    rows = [[_code(name), *(cell(found[pace][name]) for pace in found)] for name in names]
    return markdown_table(["design", *(pace_name(pace, unit) for pace in found)], rows)


def _code(name: str) -> str:
    return name if name == FIXED else f"`{name.rstrip('†')}`" + ("†" if name.endswith("†") else "")


def events(row: Row) -> str:
    measures, design = row
    mean, low, high = design.plan.patients - np.array(measures.alternative.successes)
    return f"{mean:.1f} ± {abs(high - low) / 2:.1f} ({100 * mean / design.plan.patients:.1f})"


def shares(row: Row) -> str:
    measures, _ = row
    found = measures.alternative
    best = f"{100 * float(found.best_share.mean):.0f} ({100 * found.best_low:.0f}–{100 * found.best_high:.0f})"
    return f"{best}; {100 * float(found.shares[0].mean):.0f}"


def _percents(row: Row, *wanted: tuple[str, str]) -> str:
    """Return shares of trials by the names of the analysis and of what it found."""
    measures, _ = row
    return " / ".join(f"{100 * float(getattr(measures.analysis(name), what).mean):.1f}" for name, what in wanted)


def beats(row: Row) -> str:
    return _percents(row, ("betting", "beats"), ("calibrated", "beats"))


def wins(row: Row) -> str:
    return _percents(row, ("betting", "power"), ("calibrated", "power"), ("calibrated", "wrong"))


def false_alarms(row: Row) -> str:
    return _percents(row, ("betting", "beats_error"), ("betting", "error"), ("naive", "beats_error"))


def bias(row: Row) -> str:
    found = row[0].alternative
    points = [round(100 * float(each.mean), 1) + 0.0 for each in (found.bias[0], found.difference_bias)]
    return " / ".join(f"{each:+.1f}" for each in points)  # no negative zero


TABLES: list[tuple[str, Callable[[Row], str]]] = [
    ("Events among the {patients:,} patients, mean and 95 % interval (in 100 patients)", events),
    ("Patients on the best arm, %: mean (10–90 % of trials); on the control, %", shares),
    ("Trials that show that some arm is better than the control, %: betting / calibrated z-test", beats),
    ("Trials in which the best arm wins, %: betting / calibrated z-test / in which another one does, z-test", wins),
    (
        "Under the null, %: an arm better than the control by betting / some arm wins by betting / an arm better than"
        " the control by the textbook's z-test",
        false_alarms,
    ),
    ("Bias in points: the control's success rate / the difference between the best arm and it", bias),
]


def print_tables(found: Study, patients: int) -> None:
    for title, cell in TABLES:
        print(f"{title.format(patients=patients)}\n")
        print(by_pace(found, "day", cell), "\n")


def rossi_table(found: Study) -> str:
    """Return one table of several measures, with a column for each of them and each pace."""
    cells = {"arrests": events, "aid shown to be better, %": beats, "bias": bias}
    header = [f"{what}, {pace_name(pace, 'week')}" for what in cells for pace in found]
    names = list(next(iter(found.values())))
    rows = [[_code(name), *(cell(found[pace][name]) for cell in cells.values() for pace in found)] for name in names]
    return markdown_table(["design", *header], rows)


def draw(found: Study) -> Any:
    """Draw events and power by pace, and how shares change at one patient a day."""
    first = next(iter(found.values()))
    names = [name for name in first if name.rstrip("†") not in ALIKE]
    steady = found.get(1.0, first)
    with settings():
        figure = new_figure(9.6, 3.7)
        left, middle, right = figure.subplots(1, 3)
        for k, name in enumerate(names):
            colour, dashes = ("#8A8A8A", "-") if name == FIXED else style(k - 1)
            line = {"color": colour, "linestyle": dashes, "linewidth": 1.8, "zorder": 3 + k}
            marked = {**line, "marker": "o", "markersize": 4, "clip_on": False}
            rows = [found[pace][name][0] for pace in found]
            fixed = [found[pace][FIXED][0] for pace in found]
            pairs = zip(rows, fixed, strict=True)
            left.plot([float(x.alternative.successes.mean - y.alternative.successes.mean) for x, y in pairs], **marked)
            middle.plot([100 * float(row.analysis("betting").beats.mean) for row in rows], **marked)
            at, share = _control_share(*steady[name])
            right.plot(at, 100 * share, **line, label=name)
        ticks = [pace_name(pace, "day").replace(" a ", "\na ").replace(" in ", " in\n") for pace in found]
        for axes in (left, middle):
            axes.set_ylim(bottom=0)
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_xlim(-0.25, len(ticks) - 0.75)
            axes.set_xlabel("patients")
            axes.grid(True, axis="y")
        left.set_ylabel("fewer events in a trial")
        left.set_title("Events spared", loc="left", pad=8)
        middle.set_ylim(0, 100)
        middle.set_ylabel("% of trials, by betting")
        middle.set_title("Shown: an arm beats the control", loc="left", pad=8)
        patients = steady[FIXED][1].plan.patients
        right.axvline(HORIZON, color="#8A8A8A", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
        right.set_ylim(0, 30)
        right.text(HORIZON + patients / 60, 29.5, "two years", color="#5A5A5A", fontsize=8, va="top")
        right.set_xlim(0, patients)
        right.set_xlabel("patient")
        right.set_ylabel("% on the control")
        right.set_title("As patients come, 1 a day", loc="left", pad=8)
        right.grid(True)
        columns = legend_columns(names, figure.get_figwidth())
        figure.legend(loc="outside lower center", ncols=columns, handlelength=3.0)
    return figure


def _control_share(row: Measures, design: trial.Design) -> tuple[NDArray[np.int64], Floats]:
    """Return the middle of each step, in patients, and the share of the control in it."""
    trials = design.trials[design.designs.index(row)]
    ends = step_ends(design.plan.patients)
    new = np.diff(trials.steps, axis=1).sum(axis=0)
    return (ends[1:] + ends[:-1]) // 2, new[:, 0] / new.sum(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=2_000, help="default: %(default)s")
    parser.add_argument("--patients", type=int, default=PATIENTS, help="of ACTG 175; default: %(default)s")
    parser.add_argument("--paces", type=float, nargs="+", default=PACES, help="patients a day; default: %(default)s")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the figure of the page, too")
    options = parser.parse_args()
    print("The patients of ACTG 175\n")
    print(data_table(), "\n")
    found = study("actg175", options.patients, options.paces, options.simulations)
    print_tables(found, options.patients)
    if options.figure:
        save(draw(found), options.figure, ["png"])
    print(f"The Rossi data: {ROSSI_PATIENTS} people released from prison, aid or no aid\n")
    print(rossi_table(study("rossi", ROSSI_PATIENTS, ROSSI_PACES, options.simulations)))


if __name__ == "__main__":
    main()
