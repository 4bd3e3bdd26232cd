"""Logs with a row for each decision."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_positive
from belated.logs.events import distributions_of
from belated.logs.ids import Ids
from belated.logs.labels import Labels
from belated.logs.log import Arm, Floats, Log, waits_of
from belated.logs.pieces import Source
from belated.logs.rejections import (
    BEYOND,
    EMPTY_TIME,
    NO_DISTRIBUTION,
    NO_NUMBER,
    NO_OUTCOME_TIME,
    NO_PROPENSITY,
    NO_REWARD,
    NO_SHARE,
    NOT_A_REWARD,
    TOO_EARLY,
    Checked,
    Reason,
    Rejections,
)
from belated.logs.scale import Scale
from belated.logs.times import Clock, durations, is_duration
from belated.logs.values import Mask, numbers, texts

_ROUNDING = 1e-9
"""100 * 1.1 is a little more than 110, and is meant to be 110."""
_STEPS = 4
"""How many of the smallest steps a difference may be short."""
_NOTHING_YET = -1.0
"""The reward, until the log is made, where it is 0 and no outcome has come."""


class DecisionReader:
    """Makes a log of rows, each a decision with what came of it."""

    def __init__(
        self,
        source: Source,
        columns: Mapping[str, str],
        rejections: Rejections,
        arms: Sequence[Arm] | None = None,
        accrual: float | None = None,
        scale: Scale | None = None,
    ) -> None:
        """columns: what for -> name; accrual: how many decisions are made in a unit of the delay, without times;
        scale: of the values, if there is a column of them.
        """
        if accrual is not None:
            check_positive("accrual", accrual)
            if "time" in columns or "delay" not in columns:
                raise InvalidValue(
                    f"accrual is {accrual}; it is for logs that have a delay, but no time of decisions", "accrual"
                )
        self._source, self._columns, self._rejections = source, columns, rejections
        self._accrual = 1.0 if accrual is None else accrual
        self._outcome = columns.get("value") or columns.get("loss") or columns["reward"]
        self._scale = scale if "value" in columns else None
        self._when = columns.get("outcome_time") or columns.get("delay")
        self._labels, self._clock = Labels(arms), Clock(source.word)
        self._parts: dict[str, list[Any]] = {name: [] for name in ("arms", "rewards", "propensities")}
        self._left_out: Any = None
        self.notes: list[str] = []
        """What was done with the log, in sentences."""

    def read(self) -> None:
        """Read all rows; bad ones are noted as rejected."""
        ids = Ids(self._source, self._columns["id"], self._rejections) if "id" in self._columns else None
        names = list(dict.fromkeys(self._columns.values()))
        for piece in self._source.pieces(names, self._rejections, self._columns["arm"]):
            rows = Checked(piece.frame, piece.lines, self._rejections)
            found = self._converted(rows)
            if ids is not None:
                ids.add(rows)
            for name, values in found.items():
                self._parts.setdefault(name, []).append(values if rows.good.all() else values[rows.good])
        self._left_out = None if ids is None else ids.is_later()

    def _converted(self, rows: Checked) -> dict[str, Any]:
        """Return arms, rewards and all else there is of some rows."""
        arms = self._labels.places(rows, self._columns["arm"])
        rewards, is_nothing, clipped = self._rewards(rows)
        found: dict[str, Any] = {
            "arms": arms,
            "rewards": rewards,
            "propensities": propensities(rows, self._columns.get("propensity")),
        }
        if name := self._columns.get("distribution"):
            found["distributions"] = distributions(rows, name)
        if name := self._columns.get("time"):
            times = self._clock.times(rows, name)
            rows.reject(times.is_empty, name, EMPTY_TIME)
            found["times"] = times.values
        if self._when is not None:
            found["durations"] = self._durations(rows, rewards, is_nothing, found.get("times"))
        if clipped is not None:
            found["clipped"] = clipped
        return found

    def _rewards(self, rows: Checked) -> tuple[Floats, Mask, Mask | None]:
        """Return the rewards, nan where there is none; which of them may stand for nothing yet; which were clipped."""
        if self._scale is None:
            values = shares(rows, self._outcome, NOT_A_REWARD)
            rewards = 1.0 - values if "loss" in self._columns else values
            return rewards, rewards == 0, None
        given = numbers(rows.frame[self._outcome])
        rows.reject(given.is_wrong, self._outcome, NO_NUMBER)
        losses, clipped = self._scale.losses(given.values)
        if self._scale.beyond == "refuse":
            range_ = f"from {self._scale.lowest:g} to {self._scale.highest:g}"
            rows.reject(clipped, self._outcome, BEYOND, range_)
        return 1.0 - losses, given.values == 0, clipped

    def _durations(self, rows: Checked, rewards: Floats, is_nothing: Mask, times: Floats | None) -> Floats:
        """Return how much time outcomes took, inf where they have not come; mark the rewards of those."""
        name = self._when or ""
        timed = "outcome_time" in self._columns
        given = self._clock.times(rows, name) if timed else durations(rows, name)
        if not timed and is_duration(rows.frame[name]):
            if times is not None and not self._clock.in_seconds:
                raise InvalidValue(f"{name} has lengths of time, but {self._columns['time']} has numbers", "delay")
            self._clock.in_seconds = True
        rows.reject(~given.is_empty & np.isnan(rewards), name, NO_REWARD, self._outcome)
        rows.reject(given.is_empty & ~is_nothing & ~np.isnan(rewards), self._outcome, NO_OUTCOME_TIME, name)
        rewards[given.is_empty & is_nothing] = _NOTHING_YET
        took = given.values
        if times is not None and timed:
            took = _differences(given.values, times)
            rows.reject(took < 0, name, TOO_EARLY)
        return np.where(given.is_empty, np.inf, took)

    def log(self) -> Log:
        """Return the log of the good rows."""
        kept = ... if self._left_out is None else ~self._left_out
        columns = {name: np.concatenate(self._parts.pop(name))[kept] for name in list(self._parts)}
        if (times := columns.get("times")) is not None:
            self._sort(columns, times)
        rewards = columns["rewards"]
        if nothing_yet := int(np.count_nonzero(rewards == _NOTHING_YET)):
            rewards[rewards == _NOTHING_YET] = np.nan
            self._note_nothing_yet(nothing_yet)
        if (clipped := columns.get("clipped")) is not None and self._scale is not None:
            self._note_clipped(int(np.count_nonzero(clipped & ~np.isnan(rewards))), self._scale)
        labels, arms, _ = self._labels.sorted(columns.pop("arms"))
        times, took = columns.get("times"), columns.get("durations")
        shares = by_label(columns.get("distributions"), labels)
        if shares is not None and "propensity" not in self._columns:
            columns["propensities"] = shares[np.arange(arms.size), arms]
        return Log(
            labels=labels,
            arms=arms,
            rewards=rewards,
            propensities=columns["propensities"],
            distributions=shares,
            waits=None if took is None else self._waits(times, took),
            times=times,
            durations=took,
            in_seconds=self._clock.in_seconds,
        )

    def _sort(self, columns: dict[str, Any], times: Floats) -> None:
        """Put decisions into the order of time, unless they are."""
        if late := int(np.count_nonzero(times < np.maximum.accumulate(times))):
            order = np.argsort(times, kind="stable")
            for name in columns:
                columns[name] = columns[name][order]
            rows = "1 row was" if late == 1 else f"{late:,} rows were"
            self.notes.append(f"{rows} not in the order of {self._columns['time']}: all are sorted by it.")

    def _waits(self, times: Floats | None, took: Floats) -> Floats:
        if times is not None:
            return waits_of(times, took)
        return np.maximum(np.ceil(took * self._accrual - _ROUNDING), 0.0)

    def _note_clipped(self, count: int, scale: Scale) -> None:
        if count:
            values = "1 value" if count == 1 else f"{count:,} values"
            lies, its = ("lies", "its end") if count == 1 else ("lie", "its ends")
            self.notes.append(
                f"{values} of {self._outcome} {lies} beyond {scale.lowest:g} to {scale.highest:g}: clipped to {its}."
            )

    def _note_nothing_yet(self, count: int) -> None:
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        what = "it counts as a decision" if count == 1 else "they count as decisions"
        nothing = f"{self._outcome} {1 if 'loss' in self._columns else 0}"
        self.notes.append(
            f"{rows} {nothing} and no {self._when}: {what} without an outcome; a deadline says what that means."
        )


def shares(rows: Checked, name: str, reason: Reason = NO_SHARE) -> Floats:
    """Return numbers from 0 to 1, nan where there is none; other rows are bad, for this reason."""
    given = numbers(rows.frame[name], truths=True)
    rows.reject(given.is_wrong, name, NO_NUMBER)
    rows.reject((given.values < 0) | (given.values > 1), name, reason)
    return given.values


def propensities(rows: Checked, name: str | None) -> Floats:
    """Return propensities, nan where they are not known; rows with impossible ones are bad."""
    if name is None:
        return np.full(rows.lines.size, np.nan)
    given = numbers(rows.frame[name])
    rows.reject(given.is_wrong, name, NO_NUMBER)
    rows.reject((given.values <= 0) | (given.values > 1), name, NO_PROPENSITY)
    return given.values


def distributions(rows: Checked, name: str) -> NDArray[Any]:
    """Return the probability of each arm by its label, as text, None where it is not known: from JSON objects, or from
    structs of a frame. Rows with anything else are bad.
    """
    column = rows.frame[name]
    given = column.to_list() if column.dtype.base_type().__name__ == "Struct" else texts(column).to_list()
    found = np.full(len(given), None, dtype=object)
    is_wrong = np.zeros(len(given), dtype=np.bool_)
    for place, each in enumerate(given):
        if each is not None and each != "":
            try:
                shares = json.loads(each) if isinstance(each, str) else each
                found[place] = {str(arm): float(share) for arm, share in shares.items() if share is not None}
            except (ValueError, TypeError, AttributeError):
                is_wrong[place] = True
    rows.reject(is_wrong, name, NO_DISTRIBUTION)
    return found


def by_label(rows: NDArray[Any] | None, labels: Sequence[Arm]) -> Floats | None:
    """Return the probabilities of all arms at each decision; None where no decision has them."""
    if rows is None:
        return None
    known = {place: row for place, row in enumerate(rows.tolist()) if row is not None}
    return distributions_of(known, rows.size, [str(label) for label in labels])


def _differences(outcome_times: Floats, times: Floats) -> Floats:
    """Return how much later outcomes came, rounded such that the sum is not before they came."""
    took = outcome_times - times
    for _ in range(_STEPS):
        if not (is_short := times + took < outcome_times).any():
            break
        took[is_short] = np.nextafter(took[is_short], np.inf)
    return took
