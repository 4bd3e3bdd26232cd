"""A design in words: the cells of tables, and the sentences that say what is gained and what is lost."""

from typing import TYPE_CHECKING

from belated.simulation.intervals import Interval
from belated.trial.measures import Measures

if TYPE_CHECKING:
    from belated.trial.design import Design

DESIGN_HEADER = (
    "design",
    "patients",
    "time",
    "on the best arm, %",
    "10–90 %",
    "successes",
    "of 100",
    "by arm, %",
    "bias: control",
    "best",
    "difference",
)
ARM_HEADER = ("arm", "success rate, %", "patients, %", "bias")
ANALYSIS_HEADER = ("analysis", "power, %", "wrong arm", "error, %", "for a treatment", "patients")
CONTROL_HEADER = ("beats control, %", "falsely, %")
"""With more than two arms: with two, to beat the control is to win."""


def points(value: Interval) -> str:
    """Return a share or a difference of shares in hundredths, with half the width of its interval: `66.8 ± 0.4`."""
    if value.mean != value.mean:
        return "–"
    return Interval(*(100.0 * end for end in value)).text


def percent(value: Interval) -> str:
    """Return a share in hundredths with the ends of its interval: `71.8 (69.8–73.7)`."""
    mean, low, high = (100.0 * float(end) for end in value)
    return f"{mean:.1f} ({low:.1f}–{high:.1f})"


def design_rows(design: "Design") -> list[list[str]]:
    """Return what each design does with its patients: the header first. Biases are in points, hundredths."""
    rows = [list(DESIGN_HEADER)]
    for each in design.designs:
        found = each.alternative
        rows.append(
            [
                each.name,
                found.patients.text,
                found.time.text,
                points(found.best_share),
                f"{100.0 * found.best_low:.0f}–{100.0 * found.best_high:.0f}",
                found.successes.text,
                points(found.success_rate),
                " / ".join(f"{100.0 * float(share.mean):.0f}" for share in found.shares),
                points(found.bias[0]),
                points(found.bias[design.plan.world.compared]),
                points(found.difference_bias),
            ]
        )
    return rows


def arm_rows(design: "Design") -> list[list[str]]:
    """Return what each design does with each arm, where arms have labels: the header first."""
    world = design.plan.world
    rows = [list(ARM_HEADER)]
    for each in design.designs:
        found = each.alternative
        for k, label in enumerate(world.labels):
            roles = [role for role, arm in (("control", 0), ("best", world.best)) if arm == k]
            name = f"{label} ({', '.join(roles)})" if roles else label
            rate = f"{100.0 * world.rates[k]:.1f}"
            rows.append([name, rate, points(found.shares[k]), points(found.bias[k])])
    return rows


def analysis_rows(design: "Design") -> list[list[str]]:
    """Return how each analysis does, design by design: the header first."""
    more = design.plan.world.n_arms > 2
    rows = [[*ANALYSIS_HEADER[:-1], *(CONTROL_HEADER if more else ()), ANALYSIS_HEADER[-1]]]
    for each in design.designs:
        for analysis in each.analyses:
            shares = [analysis.power, analysis.wrong, analysis.error, analysis.treatment_error]
            shares += [analysis.beats, analysis.beats_error] if more else []
            rows.append([analysis.title, *map(percent, shares), analysis.patients.text])
    return rows


def verdict(design: "Design") -> str:
    """Return what the adaptive design wins and what it costs."""
    sentences = [_patients(design), _power(design)]
    naive, alpha = design.adaptive.analysis("naive").treatment_error, design.plan.alpha
    if float(naive.low) > alpha:
        sentences.append(
            f"The z-test ignores the adaptation: under the null it finds a treatment better in"
            f" {100.0 * float(naive.mean):.1f} % of trials instead of {100.0 * alpha:g} %."
        )
    is_certain = all(each.name != "randomisation" for each in design.adaptive.analyses)
    name, how = ("betting", "betting") if is_certain else ("randomisation", "bets on randomisation")
    adaptive, fixed = (_whole(each, name) for each in design.designs)
    looks = "at every look" if design.plan.stop == "win" else "whenever one looks"
    condition = " while rates do not move" if is_certain else ", also where rates move"
    sentences.append(
        f"What is valid {looks}{condition}, {how}, finds the best arm in {adaptive} of trials, in {fixed} with"
        f" {design.fixed.name}."
    )
    return " ".join(sentences)


def _patients(design: "Design") -> str:
    """Say who goes where, and what comes of it; in shares where designs may end with different numbers of patients."""
    plan = design.plan
    begin = f"Against {design.fixed.name}, {design.adaptive.name} puts"
    if plan.stop == "win":
        adaptive, fixed = (f"{100.0 * float(each.alternative.best_share.mean):.0f} %" for each in design.designs)
        end = _change(design.more_success_rate, "successes in 100 patients", 100.0)
        return f"{begin} {adaptive} of patients on {plan.world.best_text} instead of {fixed}: {end}."
    more = design.more_on_best
    count = f"{abs(float(more.mean)):.0f} {'more' if more.mean >= 0 else 'fewer'}"
    end = _change(design.more_successes, "successes")
    return f"{begin} {count} of {plan.patients:,} patients on {plan.world.best_text}: {end}."


def _change(value: Interval, what: str, scale: float = 1.0) -> str:
    """Return by how much there is more or fewer of something, with the ends of the interval."""
    if _is_unclear(value):
        return f"no clear difference in {what}"
    word = "more" if value.mean > 0.0 else "fewer"
    mean, *ends = (scale * abs(float(end)) for end in value)
    return f"{mean:.1f} {word} {what} ({min(ends):.1f} to {max(ends):.1f})"


def _is_unclear(value: Interval) -> bool:
    return not (value.low > 0.0 or value.high < 0.0)


def _power(design: "Design") -> str:
    """Compare at equal error: each z-test calibrated by the null of its own design."""
    more = design.more_power
    adaptive, fixed = (_whole(each, "calibrated") for each in design.designs)
    begin = f"At the same error its power is {adaptive} instead of {fixed}"
    if _is_unclear(more):
        return f"{begin}: no clear difference."
    verb = "wins" if more.mean > 0.0 else "loses"
    mean, *ends = (100.0 * abs(float(end)) for end in more)
    return f"{begin}: it {verb} {mean:.1f} points ({min(ends):.1f} to {max(ends):.1f})."


def _whole(design: Measures, analysis: str) -> str:
    return f"{100.0 * float(design.analysis(analysis).power.mean):.0f} %"
