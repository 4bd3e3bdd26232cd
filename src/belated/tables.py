"""Tables for a terminal."""

from collections.abc import Sequence

from belated.comparison import Comparison
from belated.intervals import Interval
from belated.learners import Learner


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Columns as wide as their widest cell, two spaces apart, a rule under the header."""
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        ).rstrip()

    return "\n".join([line(header), "  ".join("─" * width for width in widths), *(line(row) for row in rows)])


def regret(interval: Interval) -> str:
    """Mean and half the width of its interval: `1,234 ± 56`."""
    half = (interval.high - interval.low) / 2.0
    digits = 0 if abs(interval.mean) >= 100.0 else 1
    mean = round(float(interval.mean), digits) + 0.0  # no negative zero
    return f"{mean:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half == half else "")


def comparison_table(comparison: Comparison) -> str:
    """Final regret of every learner in every cell, the smallest mean of a cell marked by a star."""
    rows = []
    for cell in comparison.cells:
        finals = [cell.final(learner) for learner in cell.learners]
        least = min(float(final.mean) for final in finals)
        marked = [regret(final) + ("*" if float(final.mean) == least and len(finals) > 1 else " ") for final in finals]
        uniform = f"{cell.uniform_regret[:, -1].mean():,.0f}"
        rows.append([cell.environment.title, cell.delays.title, *marked, uniform])
    header = ["environment", "delays", *(f"{learner} " for learner in comparison.learners), "(uniform play)"]
    return text_table(header, rows, [False, False, *(True for _ in comparison.learners), True])


def learner_table(learners: Sequence[Learner]) -> str:
    """The catalogue: what each learner is, needs and can be told."""
    rows = []
    for learner in learners:
        settings = ", ".join(f"{each.name}={each.default:g}" for each in learner.parameters) or "–"
        rows.append([learner.name, learner.summary, settings, ", ".join(learner.needs) or "nothing", learner.paper])
    return text_table(["learner", "what it is", "parameters", "must know", "paper"], rows, [False] * 5)
