"""What a replay shows: tables, sentences and figures."""

import math
from typing import Any

import numpy as np

from belated.inference import Estimate
from belated.replay.delay_profile import LIKELY, DelayGroup, DelayProfile
from belated.replay.off_policy import Range
from belated.replay.ranks import RankTest
from belated.replay.replay import Replay
from belated.replay.values import METHODS, LearnerValue
from belated.report.columns import Column, Table
from belated.simulation.plot import new_figure, settings, style
from belated.templates.display import counted, number

MOST_ROWS = 12
"""Of arms in a table of delays: those with the most decisions."""
MOST_CURVES = 6
MOST_SHARES = 3
"""Arms that are named of what a learner plays."""
DELAYS_HEADER = ("decisions of", "decisions", "no outcome", "half come within", "90 %", "99 %", "longest")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def delay(value: float, unit: str) -> str:
    """Return a delay as people read it: 3.2 d, 45 s, 1,200."""
    if math.isinf(value):
        return "later"
    if unit != "seconds" or math.isnan(value):
        return number(round(value, 2))
    if value == 0.0:
        return "0 s"
    size, letter = next(((size, letter) for size, letter in _UNITS if value >= size), (0.001, "ms"))
    return f"{number(float(f'{value / size:.3g}'))} {letter}"


def _group_row(group: DelayGroup, unit: str) -> list[str]:
    missing = "–" if math.isnan(group.missing) else f"{100 * group.missing:.3g} %"
    return [
        group.name,
        f"{group.decisions:,}",
        missing,
        *(delay(each, unit) for each in group.within),
        delay(group.longest, unit),
    ]


def delay_rows(profile: DelayProfile) -> list[list[str]]:
    """Return the groups of decisions as a table shows them: all, by arm, by outcome."""
    arms = sorted(profile.by_arm, key=lambda group: -group.decisions)
    rows = [_group_row(profile.overall._replace(name="all arms"), profile.unit)]
    if profile.unit != "decisions":
        rows.append(_group_row(profile.in_decisions._replace(name="all arms, in decisions"), "decisions"))
    rows += [_group_row(group, profile.unit) for group in arms[:MOST_ROWS]]
    if len(arms) > MOST_ROWS:
        rows.append([f"… {counted(len(arms) - MOST_ROWS, 'arm')} more", *[""] * (len(DELAYS_HEADER) - 1)])
    for group in profile.by_outcome:
        if not group.outcomes:
            continue
        row = _group_row(group, profile.unit)
        rows.append([row[0], row[1], "", *row[3:]])  # the outcome is known of those that came
    return rows


def delay_table(profile: DelayProfile) -> Table:
    """Return the delays of all decisions, by arm and by outcome."""
    columns = [Column(name, right=k > 0, fold=k == 0) for k, name in enumerate(DELAYS_HEADER)]
    return Table(columns, delay_rows(profile))


def delay_sentences(profile: DelayProfile) -> list[str]:
    """Return what the delays are like, and whether they depend on the arm or the outcome."""
    overall, unit = profile.overall, profile.unit
    in_unit = "" if unit == "seconds" else f" {unit}"
    told = [
        f"{100 * overall.missing:.3g} % of decisions have no outcome. At most"
        f" {counted(profile.most_outstanding, 'decision')} waited for outcomes at once."
    ]
    if overall.outcomes:
        half, most, nearly = (f"{delay(each, unit)}{in_unit}" for each in overall.within)
        told[0] = (
            f"Of the outcomes that come, half come within {half}, 90 % within {most}, 99 % within {nearly}. {told[0]}"
        )
    told.append(_dependence(profile.depends_on_arm, "delays depend on the arm", ""))
    told.append(_dependence(profile.missing_by_arm, "how many outcomes come at all depends on the arm", ""))
    wins, losses = profile.by_outcome
    sooner = "good" if wins.within[0] < losses.within[0] else "bad"
    told.append(
        _dependence(
            profile.depends_on_outcome,
            "delays depend on the outcome",
            f" Half of the good ones came within {delay(wins.within[0], unit)}{in_unit}, half of the bad ones within"
            f" {delay(losses.within[0], unit)}{in_unit}. While {sooner} news comes sooner, what has arrived is no"
            " fair sample: use settled outcomes.",
        )
    )
    if not wins.outcomes or not losses.outcomes:
        told[-1] = (
            f"Only {'bad' if losses.outcomes else 'good'} outcomes are in the log: whether delays depend on the outcome"
            " cannot be told. If the others are never reported, a deadline says what a missing outcome means."
        )
    return told


def _dependence(test: RankTest | None, what: str, more: str) -> str:
    """Return whether something depends on something, by a test by ranks."""
    if test is None:
        return f"Whether {what} cannot be told: there are too few outcomes."
    found = f"p = {test.p_value:.2g}" if test.p_value >= 1e-12 else "p < 1e-12"
    if test.p_value < LIKELY:
        return f"{what[0].upper()}{what[1:]} ({found}).{more}"
    return f"No clear sign that {what} ({found}, not below {LIKELY:g})."


def summary(replay: Replay) -> str:
    """Return how many decisions there are, and what became of them."""
    log, raw = replay.log, replay.delays
    told = f"{counted(log.arms.size, 'decision')} of {counted(len(log.labels), 'arm')}"
    known = int((~np.isnan(log.rewards)).sum())
    came = known if raw is None else raw.overall.outcomes
    parts = [f"{counted(came, 'outcome')} came"]
    if came < known:
        parts.append(f"{known - came:,} taken as missing at the deadline")
    if known < log.arms.size:
        parts.append(f"{log.arms.size - known:,} still open")
    return f"{told}: {', '.join(parts)}"


def bound_sentence(replay: Replay) -> str:
    """Return what the paper's bounds say of the delays."""
    profile = replay.delays
    assert profile is not None
    facts = {fact.symbol: fact for fact in profile.facts}
    rounds = facts["T"].value
    root = math.sqrt(facts["K"].value * rounds)
    first = "the first " if rounds < replay.log.arms.size else ""
    return (
        "Against every sequence of losses, no learner can promise less regret than √(KT) + Φ, up to a constant:"
        f" {number(root)} for {facts['K'].value:g} arms and {first}{rounds:,.0f} decisions, and"
        f" {number(profile.scale - root)} for these delays; together {number(profile.scale / rounds)} a decision. The"
        f" learner robust would give up on {facts['S*'].value:,.0f} decisions."
    )


def _missing(replay: Replay) -> int:
    """Return how many of the decisions that rewards are told of have none."""
    return int(np.isnan(replay.log.rewards[: replay.old_enough]).sum())


def _interval(told: Estimate | Range) -> str:
    """Return an estimate with its interval; a range has the interval alone."""
    *value, low, high = (f"{each:#.3g}" for each in told)
    return f"{value[0]} ({low}–{high})" if value else f"{low}–{high}"


def _ranked(replay: Replay) -> list[LearnerValue]:
    """Return the learners that could be replayed, the best by `dr` first; of ranges, by their low ends."""
    told = [each for each in replay.values if each.refused is None]
    return sorted(told, key=lambda each: -_place(each.estimates["dr"]))


def _place(told: Estimate | Range) -> float:
    return told.value if isinstance(told, Estimate) else told.low


def value_header() -> list[str]:
    """Return the headings of the table of learners."""
    return ["learner", *METHODS]


def value_rows(replay: Replay) -> list[list[str]]:
    """Return what each learner is worth as a table shows it, the best first; the log itself last."""
    rows = [
        [
            each.learner + (" *" if each.warning else ""),
            *(_interval(each.estimates[name]) for name in METHODS),
        ]
        for each in _ranked(replay)
    ]
    return [*rows, ["as logged", _interval(replay.logged), *[""] * (len(METHODS) - 1)]]


def value_table(replay: Replay) -> Table:
    """Return what each learner would have been worth."""
    drops = {"ips": 1, "snips": 2}
    columns = [Column(name, right=k > 0, drop=drops.get(name, 0)) for k, name in enumerate(value_header())]
    return Table(columns, value_rows(replay))


SHARES_HEADER = ("learner", "rounds", "effective size", "given up", "plays most")


def share_rows(replay: Replay) -> list[list[str]]:
    """Return how many rounds each learner has, how much rows tell of it, and which arms it plays."""
    return [
        [
            each.learner,
            f"{each.rounds:,.0f}",
            f"{each.effective_size:,.0f}",
            f"{100 * each.skipped:.3g} %",
            _shares(replay, each),
        ]
        for each in _ranked(replay)
    ]


def share_table(replay: Replay) -> Table:
    """Return the same as a table."""
    columns = [Column(name, right=0 < k < 4, fold=k == 4) for k, name in enumerate(SHARES_HEADER)]
    return Table(columns, share_rows(replay))


def _shares(replay: Replay, value: LearnerValue) -> str:
    order = np.argsort(-np.array(value.shares), kind="stable")[:MOST_SHARES]
    shown = [f"{replay.log.labels[k]} {100 * value.shares[k]:.0f} %" for k in order]
    return ", ".join(shown) + (", …" if len(value.shares) > MOST_SHARES else "")


def value_sentences(replay: Replay) -> list[str]:
    """Return what may be said of the learners, and where the log cannot carry it."""
    told = []
    if replay.best is not None:
        told += _about_best(replay, replay.best)
    refused: dict[str, list[str]] = {}
    for each in replay.values:
        if each.refused is not None:
            refused.setdefault(each.refused, []).append(each.learner)
    for reason, names in refused.items():
        told.append(f"Cannot be estimated for {', '.join(names)}: {reason}.")
    told += [f"* {warning}" for warning in dict.fromkeys(each.warning for each in replay.values if each.warning)]
    size = replay.log.arms.size
    if missing := _missing(replay):
        told.append(
            f"{counted(missing, 'decision')} without an outcome may be worth anything from 0 to 1, and the intervals of"
            " rewards allow for that. A deadline says what a missing outcome means."
        )
    if replay.old_enough < size:
        young = counted(size - replay.old_enough, "decision")
        told.append(f"The last {young} are younger than the deadline, and are left out of these rewards.")
    if replay.rows_replayed < replay.old_enough:
        told.append(f"Learners were replayed on the first {replay.rows_replayed:,} decisions.")
    return told


def _about_best(replay: Replay, best: LearnerValue) -> list[str]:
    """Return whether a learner is shown to be better than the log, and whether it had a chance."""
    gain = best.gain
    assert isinstance(gain, Estimate)
    value = f"{_interval(best.estimates['dr'])} reward a decision, where the log has {_interval(replay.logged)}"
    if best.warning is not None:
        told = [f"The largest estimate is that of {best.learner}: {value}."]
    elif gain.low > 0.0:
        more = f"{number(gain.value)} more ({gain.low:.2g} to {gain.high:.2g})"
        told = [f"{best.learner} would have earned more than the log: {value}; on the same rows {more}."]
    else:
        more = f"{gain.low:.2g} to {gain.high:.2g}"
        told = [
            f"No learner is shown to be better than the log. The largest estimate is that of {best.learner}: {value};"
            f" the difference on the same rows is {more}."
        ]
    rounds = f"The log is worth runs of about {best.rounds:,.0f} rounds."
    half = replay.delays.in_decisions.within[0] if replay.delays is not None else 0.0
    if math.isfinite(half) and half >= best.rounds:
        told.append(f"{rounds} Half of the outcomes take longer than that: hardly anything can be learned in time.")
    else:
        told.append(f"{rounds} On more decisions, learners that find the best arm gain more.")
    return told


def draw_delays(profile: DelayProfile) -> Any:
    """Draw which share of outcomes comes within which delay, by arm and by outcome."""
    arms = sorted(profile.by_arm, key=lambda group: -group.decisions)[:MOST_CURVES]
    outcomes = [group for group in profile.by_outcome if group.outcomes]
    # all curves of the second panel end at the top on the right
    panels = [("by arm", arms, "best"), ("by outcome, of those that came", outcomes, "lower right")]
    scale, unit = (1.0, profile.unit)
    if profile.unit == "seconds":
        longest = max(
            (each for each in (*profile.overall.quantiles, profile.overall.longest) if math.isfinite(each)), default=1.0
        )
        scale, letter = next(((size, letter) for size, letter in _UNITS if longest >= size), (1.0, "s"))
        unit = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}[letter]
    with settings():
        figure = new_figure(7.6, 3.2)
        for axes, (title, groups, place) in zip(figure.subplots(1, 2), panels, strict=True):
            for k, group in enumerate(groups):
                colour, dashes = style(k)
                delays, shares = group.curve
                if delays:
                    x = np.array([delays[0], *delays, max(profile.overall.longest, delays[-1])]) / scale
                    y = [0.0, *shares, shares[-1]]
                    axes.step(x, y, where="post", color=colour, linestyle=dashes, linewidth=1.6, label=group.name)
            axes.set_title(title, pad=6)
            axes.set_xlabel(f"delay in {unit}")
            highest = max((group.curve[1][-1] for group in groups if group.curve[1]), default=1.0)
            axes.set_ylim(0.0, min(1.15 * highest, 1.03))
            axes.set_xlim(left=0.0)
            axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
            axes.grid(True, which="major")
            if axes.get_legend_handles_labels()[1]:
                axes.legend(loc=place, fontsize=7.5)
        figure.axes[0].set_ylabel("outcomes that have come")
    return figure


def draw_outstanding(profile: DelayProfile) -> Any:
    """Draw how many decisions waited for their outcomes, as decisions were made."""
    with settings():
        figure = new_figure(7.6, 2.4)
        axes = figure.subplots()
        axes.fill_between(profile.at, profile.outstanding, color=style(0)[0], alpha=0.18, linewidth=0)
        axes.plot(profile.at, profile.outstanding, color=style(0)[0], linewidth=1.4)
        axes.set_xlim(0, max(int(profile.at[-1]), 1))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("decisions made")
        axes.set_ylabel("outstanding")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        axes.grid(True, which="major")
    return figure


def draw_values(replay: Replay) -> Any:
    """Draw what each learner is worth by each method, with its interval, over that of the log."""
    told = _ranked(replay)[::-1]  # upwards
    with settings():
        figure = new_figure(7.6, 0.9 + 0.5 * len(told))
        axes = figure.subplots()
        logged = replay.logged
        axes.axvspan(logged.low, logged.high, color="#8A8A8A", alpha=0.18, linewidth=0, zorder=1, label="as logged")
        if isinstance(logged, Estimate):
            axes.axvline(logged.value, color="#8A8A8A", linewidth=1.0, zorder=1)
        for k, name in enumerate(METHODS):
            colour = style(k)[0]
            places = [row + 0.27 - 0.18 * k for row in range(len(told))]
            shown = [each.estimates[name] for each in told]
            ends = np.array([(each.low, each.high) for each in shown]).T
            axes.hlines(places, *ends, color=colour, linewidth=1.6, zorder=3, label=name)
            points = [(each.value, at) for each, at in zip(shown, places, strict=True) if isinstance(each, Estimate)]
            axes.plot(*np.array(points).reshape(-1, 2).T, "o", color=colour, markersize=4, zorder=4)
        axes.set_yticks(range(len(told)), [each.learner for each in told])
        axes.set_ylim(-0.6, len(told) - 0.4)
        axes.set_xlabel("mean reward of a decision")
        axes.grid(True, axis="x")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside right center", fontsize=7.5)
    return figure
