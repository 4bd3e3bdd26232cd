"""Logs from exports of a ledger, with a row for each event; the same as `EventLog` makes of the events."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from belated.errors import InvalidValue
from belated.logs.changes import Change
from belated.logs.columns import EVENT_COLUMNS
from belated.logs.decisions import by_label, distributions, propensities, shares
from belated.logs.ids import later_twins, reject_twins
from belated.logs.labels import Labels
from belated.logs.log import Arm, Floats, Integers, Log
from belated.logs.pieces import Source
from belated.logs.rejections import NO_ROUND, NO_SHARE, NOT_MADE, Checked, Rejections
from belated.logs.times import Clock
from belated.logs.values import texts

if TYPE_CHECKING:
    import polars

_DECISION, _OUTCOMES = "decision", ("outcome", "default", "settled")
_CHANGES = {"add_arm": True, "retire_arm": False, "restore_arm": True}
"""Changes of arms, and whether the arm is there after them."""
Table = dict[str, npt.NDArray[Any]]


class EventReader:
    """Makes a log of the events of an exported ledger."""

    def __init__(self, source: Source, rejections: Rejections, arms: Sequence[Arm] | None = None) -> None:
        for name in EVENT_COLUMNS:
            if name not in source.columns:
                raise InvalidValue(
                    f"{source.name} has events, but no column {name!r}; there are {', '.join(source.columns)}", "path"
                )
        self._source, self._rejections = source, rejections
        self._labels, self._clock = Labels(arms), Clock(source.word)
        self._decisions: Table = {}
        self._outcomes: Table = {}
        self._changes: list[tuple[int, int, bool]] = []
        """Lines, arms, and whether they are there after."""
        self.notes: list[str] = []

    def read(self) -> None:
        """Read all events; bad ones are noted as rejected."""
        decisions: list[Table] = []
        outcomes: list[Table] = []
        columns = [*EVENT_COLUMNS, *({"detail"} & set(self._source.columns))]
        for frame, lines in self._source.pieces(columns, self._rejections, "arm"):
            kinds = texts(frame["kind"])
            self._read_changes(frame, lines, kinds)
            for wanted, tables in ((kinds == _DECISION, decisions), (kinds.is_in(_OUTCOMES), outcomes)):
                chosen = wanted.fill_null(False)
                rows = Checked(frame.filter(chosen), lines[chosen.to_numpy()], self._rejections)
                table: Table = {"lines": rows.lines, "rounds": _rounds(rows)}
                if tables is decisions:
                    table["arms"] = self._labels.places(rows, "arm")
                    table["propensities"] = propensities(rows, "propensity")
                    table["details"] = _details(rows)
                else:
                    table["losses"] = _losses(rows)
                table["times"] = self._clock.times(rows, "at").values
                tables.append({name: column[rows.good] for name, column in table.items()})
        if decisions:
            self._decisions, self._outcomes = _joined(decisions), _joined(outcomes)
            self._leave_out_twins()
            self._find_decisions()

    def _read_changes(self, frame: "polars.DataFrame", lines: Integers, kinds: "polars.Series") -> None:
        """Read which arms came and left."""
        chosen = kinds.is_in(list(_CHANGES)).fill_null(False)
        rows = Checked(frame.filter(chosen), lines[chosen.to_numpy()], self._rejections)
        arms = self._labels.places(rows, "arm")
        told = zip(rows.lines.tolist(), arms.tolist(), kinds.filter(chosen).to_list(), rows.good.tolist(), strict=True)
        self._changes += [(line, arm, _CHANGES[kind]) for line, arm, kind, is_good in told if is_good]

    def _leave_out_twins(self) -> None:
        """Leave out decisions of a round that was there before."""
        import polars

        rounds, lines = self._decisions["rounds"], self._decisions["lines"]
        twins = later_twins(polars.DataFrame({"line": lines, "value": rounds}))
        if len(twins):
            reject_twins(self._rejections, "round", twins)
            kept = ~np.isin(lines, twins["line"].to_numpy())
            self._decisions = {name: column[kept] for name, column in self._decisions.items()}

    def _find_decisions(self) -> None:
        """Find the decision of each outcome; keep the first outcome of each."""
        import polars

        outcomes, rounds, lines = self._outcomes, self._decisions["rounds"], self._decisions["lines"]
        order = np.argsort(rounds, kind="stable")
        near = np.minimum(np.searchsorted(rounds, outcomes["rounds"], sorter=order), max(rounds.size - 1, 0))
        places = order[near] if rounds.size else near
        is_made = np.zeros(places.size, dtype=np.bool_)
        if rounds.size:
            is_made = (rounds[places] == outcomes["rounds"]) & (lines[places] < outcomes["lines"])
        if not is_made.all():
            shown = polars.Series(outcomes["rounds"][~is_made]).cast(polars.String)
            self._rejections.add(outcomes["lines"][~is_made], "round", shown, NOT_MADE)
        found, first = np.unique(places[is_made], return_index=True)
        self._outcomes = {name: column[is_made][first] for name, column in outcomes.items()} | {"places": found}

    def log(self) -> Log:
        """Return the log of the good events."""
        decisions, outcomes = self._decisions, self._outcomes
        size, places = decisions["rounds"].size, outcomes["places"]
        rewards, waits, took = np.full(size, np.nan), np.full(size, np.inf), np.full(size, np.inf)
        rewards[places] = 1.0 - outcomes["losses"]
        waits[places] = np.searchsorted(decisions["lines"], outcomes["lines"]) - 1 - places
        times, outcome_times = _in_order(decisions, outcomes)
        took[places] = outcome_times - times[places]
        is_timed = self._clock.in_seconds and not (np.isnan(times).any() or np.isnan(took).any())
        after = np.searchsorted(decisions["lines"], [line for line, _, _ in self._changes])
        changes = [Change(int(k), arm, is_there) for k, (_, arm, is_there) in zip(after, self._changes, strict=True)]
        labels, arms, changed = self._labels.sorted(decisions["arms"], changes)
        return Log(
            labels=labels,
            arms=arms,
            rewards=rewards,
            propensities=decisions["propensities"],
            distributions=by_label(decisions["details"], labels),
            waits=waits,
            times=times if is_timed else None,
            durations=took if is_timed else None,
            in_seconds=is_timed,
            changes=changed,
        )


def _joined(tables: Sequence[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _in_order(decisions: Table, outcomes: Table) -> tuple[Floats, Floats]:
    """Return the times of decisions and of outcomes; a clock that goes back is taken to stand still."""
    order = np.argsort(np.concatenate([decisions["lines"], outcomes["lines"]]), kind="stable")
    times = np.empty(order.size)
    times[order] = np.maximum.accumulate(np.concatenate([decisions["times"], outcomes["times"]])[order])
    size = decisions["times"].size
    return times[:size], times[size:]


def _rounds(rows: Checked) -> Integers:
    """Return the rounds of events; rows without one are bad."""
    import polars

    column = rows.frame["round"]
    shown = texts(column)
    # pandas makes 3.0 of 3, where a round is missing
    whole = shown.str.strip_chars().str.replace(r"\.0$", "") if column.dtype.is_float() else shown.str.strip_chars()
    found = whole.cast(polars.Int64, strict=False)
    rows.reject(found.is_null().to_numpy(), "round", NO_ROUND)
    rounds: Integers = found.fill_null(0).to_numpy()
    return rounds


def _details(rows: Checked) -> npt.NDArray[Any]:
    """Return the probabilities of all arms that decisions have as their details."""
    if "detail" not in rows.frame.columns:
        return np.full(len(rows.lines), None, dtype=object)
    return distributions(rows, "detail")


def _losses(rows: Checked) -> Floats:
    losses = shares(rows, "loss")
    rows.reject(np.isnan(losses), "loss", NO_SHARE)
    return losses
