"""A proposal of a range as people read it: tables, sentences, and the lines to paste."""

import json
from collections.abc import Sequence

from belated.logs.log import Arm
from belated.logs.ranges import ALIKE, Proposal, RangeChoice, outcome_field, shown_range
from belated.logs.scale import Scale
from belated.report.columns import Column, Table
from belated.templates.display import number

MOST_ROWS = 30
"""Of a table of arms: the best."""


def choices_table(proposal: Proposal) -> Table:
    """Return the ranges to choose from, the widest first."""
    rows = []
    for each in proposal.choices:
        row = [
            "→" if each is proposal.recommended else "",
            shown_range(each.scale),
            _made_for(each),
            percent(each.clipped),
            _change(each.mean, proposal.mean),
            number(each.deviation),
            _times(proposal.decisions(each)),
        ]
        rows.append(row + [_order_word(proposal, each)] * (len(proposal.order) > 1))
    names = ("range", "made for", "clipped", "mean", "sd / range", "decisions", "order of arms")
    columns = [Column("")] + [Column(name, right=name != "order of arms") for name in names]
    return Table(columns[: len(rows[0])], rows)


def arms_table(proposal: Proposal) -> Table:
    """Return what the recommended range does to each arm, the best first."""
    known = {each.arm: each for each in proposal.recommended.arms}
    rows = []
    for arm in proposal.order[:MOST_ROWS]:
        each = known[arm]
        change = _change(each.clipped_mean, each.mean)
        rows.append(
            [str(arm), f"{each.values:,}", percent(each.clipped), number(each.mean), number(each.clipped_mean), change]
        )
    if len(proposal.order) > MOST_ROWS:
        rows.append([f"… {len(proposal.order) - MOST_ROWS:,} more", "", "", "", "", ""])
    names = ("values", "clipped", "mean", "clipped mean", "bias")
    return Table([Column("arm", fold=True), *(Column(name, right=True) for name in names)], rows)


def sentences(proposal: Proposal) -> str:
    """Return what the recommended range costs, what a wider one would, and what to know about it."""
    best, widest = proposal.recommended, proposal.widest
    change = f"from {number(proposal.mean)} to {number(best.mean)} ({_change(best.mean, proposal.mean)})"
    does = (
        f"clips {percent(best.clipped)} of the values, which takes the mean {change}"
        if best.clipped
        else "clips nothing"
    )
    lines = [f"Recommended: {shown_range(best.scale)}. It {does}."]
    if best.clipped and len(proposal.order) > 1:
        lines[0] += f" {_order_sentence(proposal.order, best.order)}"
    if proposal.zero_is_end:
        lines.append(f"{percent(proposal.zeros)} of the values are 0; quantiles are those of the others.")
    if best is not widest:
        lines.append(_cost_of_the_widest(proposal))
    lines += [f"Note: {note}" for note in proposal.notes]
    return "\n".join(lines)


def _cost_of_the_widest(proposal: Proposal) -> str:
    widest = proposal.widest
    decisions, spread = proposal.decisions(widest), proposal.decisions_by_spread(widest)
    because = "since rare, large values make means uncertain"
    if decisions / spread >= ALIKE:
        because += f" ({_times(spread)}), and since a wide range allows small bets only ({_times(decisions / spread)})"
    return (
        f"With the full range, {shown_range(widest.scale)}, a comparison of two arms whose means differ by"
        f" {number(proposal.difference)}{_share_of_mean(proposal)} takes about {_times(decisions)[2:]} times as many"
        f" decisions, {because}."
    )


def _share_of_mean(proposal: Proposal) -> str:
    return f" ({percent(proposal.difference / abs(proposal.mean))} of the mean)" if proposal.mean else ""


def paste(scale: Scale) -> str:
    """Return the lines that use a range: a field of an experiment, and a bandit."""
    better = "" if scale.better == "higher" else f', better="{scale.better}"'
    field = outcome_field(scale)
    return f'"outcome": {json.dumps(field)}\nBandit(…, outcome=Scale({field["lowest"]}, {field["highest"]}{better}))'


def percent(share: float) -> str:
    """Return a share in percent, with as many digits as it needs."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _times(ratio: float) -> str:
    return f"× {ratio:.2g}" if ratio < 99.5 else f"× {number(ratio)}"


def _made_for(choice: RangeChoice) -> str:
    return "all values" if choice.quantile == 1.0 else f"{100 * choice.quantile:g} %"


def _change(after: float, before: float) -> str:
    """Return by which part of itself a mean has changed."""
    if before == 0.0:
        return "–" if after != after or after == before else f"{after:+.2g}"
    return f"{100 * (after - before) / abs(before):+.2g} %" if after != before else "0 %"


def _order_word(proposal: Proposal, choice: RangeChoice) -> str:
    if proposal.keeps_order(choice):
        return "stays"
    return f"{choice.order[0]} first" if choice.order[0] != proposal.order[0] else "changes"


def _order_sentence(before: Sequence[Arm], after: Sequence[Arm]) -> str:
    if tuple(before) == tuple(after):
        return "The order of the arms stays."
    if before[0] != after[0]:
        return f"The best arm is {before[0]} as values are, and {after[0]} when they are clipped."
    return f"The best arm stays {before[0]}; the order of the others changes."
