"""Logs: decisions in the order in which they were made, each with what came of it.

>>> from belated.logs import Log
>>> log = Log.from_decisions([(1, "blue", 0.5), (2, "green", 0.5), (3, "blue", 0.6)], rewards={1: 0, 3: 1})
>>> log
Log(3 decisions of 2 arms, 2 outcomes)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_count, check_positive, check_share, is_whole
from belated.logs.changes import Change, arms_at_first, check_changes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Arm = str | int
Values = Sequence[Any] | NDArray[Any]

_TOLERANCE = 1e-6
"""By how much probabilities of logs may miss what they should be: they may have been rounded."""


@dataclass(frozen=True, repr=False)
class Log:
    """Decisions in their order. Index 0 is the first decision."""

    labels: tuple[Arm, ...]
    """Of the arms."""
    arms: Integers
    """The arm of each decision: its place in `labels`."""
    rewards: Floats
    """From 0 to 1; nan where no outcome is known."""
    propensities: Floats
    """Above 0, at most 1; nan where it is not known."""
    waits: Floats | None = None
    """After how many more decisions each outcome came; inf where it has not come; None where nobody knows."""
    distributions: Floats | None = None
    """The probability of every arm in every round, where that is known."""
    times: Floats | None = None
    """When each decision was made, in order; None where nobody knows. Seconds since 1970 where `in_seconds` is set."""
    durations: Floats | None = None
    """How much time each outcome took, in the unit of `times`; inf where it has not come; None where nobody knows."""
    in_seconds: bool = False
    """Whether times and durations are in seconds; otherwise the unit is the log's own."""
    floors: tuple[float, ...] | None = None
    """The least probability of each arm that was there at the beginning, guaranteed before the first decision; None:
    there was no such guarantee.
    """
    changes: tuple[Change, ...] = ()
    """Arms that came and left, in the order of time: (after how many decisions, its place in `labels`, whether it
    came). Arms that were not there at the beginning are the last ones in `labels`, in the order of their coming.
    """

    def __post_init__(self) -> None:
        size = self.arms.size
        for name in ("rewards", "propensities", "waits", "times", "durations"):
            values = getattr(self, name)
            if values is not None and values.shape != (size,):
                raise InvalidValue(
                    f"{name} has the shape {values.shape}; one for each of {size} decisions is needed", name
                )
        if len(self.labels) < 2:
            raise InvalidValue(f"the log has {len(self.labels)} arms; at least 2 are needed", "arms")
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise InvalidValue(f"arm {twice!r} is named twice; each may be named once", "arms")
        self._check("arms", ~((self.arms >= 0) & (self.arms < len(self.labels))), f"0 to {len(self.labels) - 1}")
        self._check("rewards", ~(np.isnan(self.rewards) | ((self.rewards >= 0) & (self.rewards <= 1))), "0 to 1")
        known = ~np.isnan(self.propensities)
        wrong = known & ~((self.propensities > 0) & (self.propensities <= 1))
        self._check("propensities", wrong, "above 0, at most 1")
        for name in ("waits", "durations"):
            if (values := getattr(self, name)) is not None:
                self._check(name, ~(values >= 0), "at least 0")
        if self.times is not None:
            goes_back = np.diff(self.times, prepend=self.times[:1]) < 0
            self._check("times", goes_back | ~np.isfinite(self.times), "a finite number that does not go back")
        if self.distributions is not None and self.distributions.shape != (size, len(self.labels)):
            raise InvalidValue(
                f"distributions has the shape {self.distributions.shape}; {(size, len(self.labels))} is needed",
                "distributions",
            )
        if self.changes:
            object.__setattr__(self, "changes", tuple(Change(*change) for change in self.changes))
            check_changes(self.arms, len(self.labels), self.changes)
        if self.distributions is not None:
            self._check_distributions(self.distributions)
        if self.floors is not None:
            self._check_floors(self.floors)

    def _check_distributions(self, distributions: Floats) -> None:
        """Refuse distributions that are none, or do not fit the propensities."""
        is_known = ~np.isnan(distributions).any(axis=1)
        wrong = (distributions < 0.0).any(axis=1) | (np.abs(distributions.sum(axis=1) - 1.0) > _TOLERANCE)
        if (wrong & is_known).any():
            k = int(np.argmax(wrong & is_known))
            raise InvalidValue(
                f"distributions[{k}] is {distributions[k].tolist()}; probabilities that sum to 1 are needed",
                "distributions",
            )
        chosen = distributions[np.arange(self.arms.size), self.arms]
        wrong = np.abs(chosen - self.propensities) > _TOLERANCE  # False where one of them is nan
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InvalidValue(
                f"propensities[{k}] is {self.propensities[k].item()}, and distributions[{k}] gives the chosen arm"
                f" {chosen[k].item()}; they must agree",
                "propensities",
            )

    def _check_floors(self, floors: tuple[float, ...]) -> None:
        """Refuse floors that decisions did not keep."""
        if len(floors) != self.first_arms:
            raise InvalidValue(
                f"floors has {len(floors)} numbers; one for each of {self.first_arms} arms is needed", "floors"
            )
        for k, floor in enumerate(floors):
            check_share(f"floors[{k}]", floor)
        if not self.changes and sum(floors) > 1.0 + _TOLERANCE:
            raise InvalidValue(f"floors sum to {sum(floors):g}; at most 1 is possible", "floors")
        least = np.append(floors, np.zeros(len(self.labels) - len(floors)))[self.arms]
        # bets divide the floor by the propensity: of a small one no more than a hundredth may be missing
        wrong = self.propensities < least - np.minimum(_TOLERANCE, 0.01 * least)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InvalidValue(
                f"propensities[{k}] is {self.propensities[k].item()}, below the floor {least[k]:g} that is guaranteed",
                "floors",
            )

    def with_floor(self, floor: float) -> "Log":
        """Return the log with a least probability of every arm that was guaranteed before the first decision."""
        check_share("floor", floor)
        return replace(self, floors=(floor,) * self.first_arms)

    def with_shares(self, shares: Sequence[float]) -> "Log":
        """Return the log of decisions that were drawn with fixed probabilities, one for each arm."""
        found = numbers_of("shares", shares)
        if found.shape != (len(self.labels),) or not (found > 0.0).all() or abs(found.sum() - 1.0) > _TOLERANCE:
            raise InvalidValue(
                f"shares is {found.tolist()}; {len(self.labels)} probabilities above 0 that sum to 1 are needed",
                "shares",
            )
        if self.changes:
            raise InvalidValue("fixed shares need arms that stay; in this log some came or left", "shares")
        return replace(
            self,
            propensities=found[self.arms],
            distributions=np.tile(found, (self.arms.size, 1)),
            floors=tuple(found.tolist()),
        )

    def _check(self, name: str, wrong: NDArray[np.bool_], allowed: str) -> None:
        if wrong.any():
            k = int(np.argmax(wrong))
            value = getattr(self, name)[k].item()
            raise InvalidValue(f"{name}[{k}] is {value}; allowed is {allowed}", name)

    @classmethod
    def from_arrays(
        cls,
        arms: Values,
        rewards: Values | None = None,
        *,
        losses: Values | None = None,
        propensities: Values | None = None,
        distributions: Values | None = None,
        waits: Values | None = None,
        labels: Sequence[Arm] | None = None,
        floors: Sequence[float] | None = None,
        changes: Iterable[tuple[int, Arm, bool]] = (),
    ) -> "Log":
        """Return the log of decisions given as arrays: the label of each arm, the reward (nan: not known), …

        With `labels` the arms are named in this order, whether they were chosen or not; otherwise those that were
        chosen are, in the order of their first decisions. `changes` tells which arms came or left: (after how many
        decisions, label, whether it came). Arms that were not there at the beginning are named last.
        """
        given = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
        place, names = _places(given, labels)
        shares = None if distributions is None else np.asarray(distributions, dtype=np.float64)
        if propensities is None and shares is not None and shares.shape == (len(given), len(names)):
            propensities = shares[np.arange(len(given)), place]
        return cls(
            labels=names,
            arms=place,
            rewards=_rewards(rewards, losses),
            propensities=numbers_of("propensities", propensities, len(given)),
            waits=None if waits is None else numbers_of("waits", waits, len(given)),
            distributions=shares,
            floors=None if floors is None else tuple(float(floor) for floor in floors),
            changes=_changes(names, changes),
        )

    @classmethod
    def from_decisions(
        cls,
        decisions: Iterable[Sequence[Any]],
        *,
        rewards: Mapping[Any, float] | Iterable[tuple[Any, float]] | None = None,
        losses: Mapping[Any, float] | Iterable[tuple[Any, float]] | None = None,
        labels: Sequence[Arm] | None = None,
        changes: Iterable[tuple[int, Arm, bool]] = (),
    ) -> "Log":
        """Return the log of a list of decisions, in the order in which they were made, and of their outcomes.

        A decision is a `Decision`, or (id, arm), or (id, arm, propensity), or (id, arm, propensity, distribution):
        the probability of every arm, in the order of `labels`, as `bandit.distribution` gives it right after the
        decision. `labels` are needed then, and arms that were still to come may be missing from the end of a
        distribution. Where ids are whole numbers, such as rounds, they must grow. Outcomes are told by the id of their
        decision, as a mapping or as pairs. `labels` and `changes` are as in `from_arrays`.
        """
        rows = [tuple(decision) for decision in decisions]
        changes = list(changes)
        for k, row in enumerate(rows):
            if len(row) not in (2, 3, 4):
                raise InvalidValue(
                    f"decisions[{k}] is {row!r}; (id, arm), (id, arm, propensity) or"
                    " (id, arm, propensity, distribution) is needed",
                    "decisions",
                )
        ids = [row[0] for row in rows]
        index = {id: k for k, id in enumerate(ids)}
        if len(index) < len(ids):
            k = next(k for k, id in enumerate(ids) if index[id] != k)
            raise InvalidValue(
                f"decision {ids[k]!r} is given twice: decisions[{k}] and decisions[{index[ids[k]]}]", "decisions"
            )
        if all(is_whole(id) for id in ids):
            for k in range(1, len(ids)):
                if ids[k] < ids[k - 1]:
                    raise InvalidValue(
                        f"decision {ids[k]} follows decision {ids[k - 1]}; decisions are needed in the order in which"
                        " they were made",
                        "decisions",
                    )
        values = [_by_id(index, name, given) for name, given in (("rewards", rewards), ("losses", losses))]
        return cls.from_arrays(
            [row[1] for row in rows],
            values[0],
            losses=values[1],
            propensities=[row[2] if len(row) > 2 else None for row in rows],
            distributions=_distributions(rows, labels, changes),
            labels=labels,
            changes=changes,
        )

    def __repr__(self) -> str:
        outcomes = int(np.count_nonzero(~np.isnan(self.rewards)))
        return f"Log({self.arms.size:,} decisions of {len(self.labels):,} arms, {outcomes:,} outcomes)"

    def with_deadline(self, rounds: int, loss: float) -> "Log":
        """Return the log in which a decision without an outcome after so many more decisions has a default loss.

        As in an experiment of the service with a deadline: an outcome that came later does not count. Where the log
        does not say when outcomes came (`waits` is None), those that it has count.
        """
        check_count("deadline", rounds)
        check_share("missing_loss", loss)
        size = self.arms.size
        ages = size - 1.0 - np.arange(size)
        waits = 0.0 if self.waits is None else self.waits
        is_over = (np.where(np.isnan(self.rewards), np.inf, waits) > rounds) & (ages >= rounds)
        durations = self.durations
        if durations is not None and self.times is not None:
            then = self.times[np.minimum(np.arange(size) + rounds, size - 1)]
            durations = np.where(is_over, then - self.times, durations)
        elif durations is not None:
            durations = np.where(is_over, rounds / self._pace, durations)
        return replace(
            self,
            rewards=np.where(is_over, 1.0 - loss, self.rewards),
            waits=None if self.waits is None else np.where(is_over, float(rounds), self.waits),
            durations=durations,
        )

    def with_deadline_after(self, duration: float, loss: float) -> "Log":
        """Return the log in which a decision without an outcome after so much time has a default loss."""
        check_positive("deadline", duration)
        check_share("missing_loss", loss)
        if self.durations is None:
            raise InvalidValue(
                "a deadline in time needs the time that outcomes took, which the log does not have; a deadline in"
                " decisions is needed",
                "deadline",
            )
        is_over = np.where(np.isnan(self.rewards), np.inf, self.durations) > duration
        is_over &= self.ages >= duration
        durations = np.where(is_over, duration, self.durations)
        if self.times is None:
            waits = np.full(self.arms.size, np.inf) if self.waits is None else self.waits
            waits = np.where(is_over, np.ceil(duration * self._pace - 1e-9), waits)
            return replace(self, rewards=np.where(is_over, 1.0 - loss, self.rewards), waits=waits, durations=durations)
        # where no outcome is replaced, the order of events is known better than by times
        waits = self.waits if self.waits is not None else waits_of(self.times, self.durations)
        waits = np.where(is_over, waits_of(self.times, np.where(is_over, durations, 0.0)), waits)
        return replace(self, rewards=np.where(is_over, 1.0 - loss, self.rewards), waits=waits, durations=durations)

    @property
    def _pace(self) -> float:
        """Decisions in a unit of time, of a log of delays alone: the pace at which they were turned into decisions."""
        if self.durations is None or self.waits is None:
            return 1.0
        is_late = np.isfinite(self.durations) & np.isfinite(self.waits) & (self.durations > 0) & (self.waits > 0)
        if not is_late.any():
            return 1.0
        longest = int(np.argmax(np.where(is_late, self.durations, 0.0)))
        return float(self.waits[longest] / self.durations[longest])

    @property
    def ages(self) -> Floats:
        """How much time has passed since each decision at the end of the log; inf without times: such a log is taken to
        be complete.
        """
        return np.full(self.arms.size, np.inf) if self.times is None else self.end - self.times

    @property
    def end(self) -> float:
        """The time of the last thing that the log knows of; nan without times."""
        if self.times is None or not self.times.size:
            return float("nan")
        if self.durations is None:
            return float(self.times[-1])
        came = np.isfinite(self.durations) & ~np.isnan(self.rewards)
        return float(max(self.times[-1], (self.times + self.durations)[came].max(initial=-np.inf)))

    @property
    def first_arms(self) -> int:
        """How many arms there were at the beginning."""
        return arms_at_first(len(self.labels), self.changes)

    @property
    def settled(self) -> int:
        """How many decisions, from the first on, have all their outcomes."""
        missing = np.isnan(self.rewards)
        return int(np.argmax(missing)) if missing.any() else self.arms.size

    def head(self, decisions: int) -> "Log":
        """Return the log of the first decisions, with all that is known of them now; later changes are to come."""
        kept = slice(0, decisions)
        names = ("arms", "rewards", "propensities", "waits", "distributions", "times", "durations")
        return replace(self, **{name: values[kept] for name in names if (values := getattr(self, name)) is not None})

    def until(self, decisions: int) -> "Log":
        """Return the log as it was right after so many decisions.

        Outcomes came as `waits` says; at once, where it is None.
        """
        first = self.head(decisions)
        if first.waits is None:
            return first
        ages = decisions - 1.0 - np.arange(first.arms.size)
        return replace(first, rewards=np.where(first.waits <= ages, first.rewards, np.nan))


def waits_of(times: Floats, durations: Floats) -> Floats:
    """Return after how many more decisions each outcome came: those made until then, at the very moment included."""
    came = np.isfinite(durations)
    until = np.searchsorted(times, np.where(came, times + np.where(came, durations, 0.0), times[-1:]), side="right")
    return np.where(came, until - 1.0 - np.arange(times.size), np.inf)


def _places(given: Sequence[Arm], labels: Sequence[Arm] | None) -> tuple[Integers, tuple[Arm, ...]]:
    names = tuple(dict.fromkeys(given)) if labels is None else tuple(labels)
    place = {name: k for k, name in enumerate(names)}
    try:
        return np.array([place[arm] for arm in given], dtype=np.int64), names
    except KeyError as error:
        shown = ", ".join(map(repr, names[:6])) + (", …" if len(names) > 6 else "")
        raise InvalidValue(
            f"decisions[{given.index(error.args[0])}] has the arm {error.args[0]!r}; known are {shown}", "arms"
        ) from None


def _changes(names: tuple[Arm, ...], changes: Iterable[tuple[int, Arm, bool]]) -> tuple[Change, ...]:
    place = {name: k for k, name in enumerate(names)}
    found = []
    for after, arm, present in changes:
        if arm not in place:
            raise InvalidValue(f"changes has the arm {arm!r}; known are {', '.join(map(repr, names))}", "changes")
        found.append(Change(after, place[arm], present))
    return tuple(found)


def _distributions(
    rows: Sequence[tuple[Any, ...]], labels: Sequence[Arm] | None, changes: Sequence[tuple[int, Arm, bool]]
) -> Floats | None:
    """Return the fourth parts of decisions, the probability of every arm: nan where it is not known; None where no
    decision has one.
    """
    known = {k: row[3] for k, row in enumerate(rows) if len(row) == 4 and row[3] is not None}
    if not known:
        return None
    if labels is None:
        raise InvalidValue("labels is None; with distributions the arms are needed in their order", "labels")
    names = tuple(labels)
    least, most = arms_at_first(len(names), _changes(names, changes)), len(names)
    needed = f"{most}" if least == most else f"{least} to {most}"
    found = np.full((len(rows), most), np.nan)
    for k, distribution in known.items():
        try:
            shares = np.array(distribution, dtype=np.float64)
        except (TypeError, ValueError):
            shares = np.zeros(())
        if shares.ndim != 1 or not least <= shares.size <= most:
            raise InvalidValue(
                f"decisions[{k}] has the distribution {distribution!r}; {needed} probabilities are needed, one for each"
                " arm",
                "decisions",
            )
        found[k, : shares.size] = shares
        found[k, shares.size :] = 0.0
    return found


def _rewards(rewards: Values | None, losses: Values | None) -> Floats:
    if (rewards is None) == (losses is None):
        both = "both rewards and losses are given" if rewards is not None else "neither rewards nor losses are given"
        raise InvalidValue(f"{both}; one of them is needed", "rewards")
    if rewards is not None:
        return numbers_of("rewards", rewards, None)
    values = numbers_of("losses", losses, None)
    wrong = ~(np.isnan(values) | ((values >= 0) & (values <= 1)))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InvalidValue(f"losses[{k}] is {values[k].item()}; allowed is 0 to 1", "losses")
    return 1.0 - values


def numbers_of(name: str, values: Any, size: int | None = None) -> Floats:
    """Return numbers, nan for None."""
    if values is None:
        return np.full(size or 0, np.nan)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    numbers = []
    for k, value in enumerate(values):
        try:
            numbers.append(np.nan if value is None else float(value))
        except (TypeError, ValueError):
            raise InvalidValue(f"{name}[{k}] is {value!r}; a number is needed", name) from None
    return np.array(numbers, dtype=np.float64)


def _by_id(
    index: Mapping[Any, int], name: str, given: Mapping[Any, float] | Iterable[tuple[Any, float]] | None
) -> list[float | None] | None:
    """Return a value for each decision, None where there is none."""
    if given is None:
        return None
    values: list[float | None] = [None] * len(index)
    seen = set()
    for id, value in given.items() if isinstance(given, Mapping) else given:
        if id not in index:
            raise InvalidValue(f"{name} has an outcome of decision {id!r}, which is not among the decisions", name)
        if id in seen:
            raise InvalidValue(f"{name} has two outcomes of decision {id!r}; one is needed", name)
        seen.add(id)
        values[index[id]] = value
    return values
