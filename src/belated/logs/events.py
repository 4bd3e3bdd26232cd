"""Logs from events: decisions and outcomes in the order in which they happened, as a ledger has them."""

from array import array
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.logs.changes import Change, newcomers
from belated.logs.log import Arm, Log


class EventLog:
    """Takes events one after the other and makes a log of them. Decisions are told by their rounds, or by ids."""

    def __init__(self, labels: Sequence[Arm] | None = None) -> None:
        """labels: of all arms, if they are known; otherwise those that were chosen count, sorted by their labels.

        Arms that come later are named last, in the order of their coming.
        """
        self._labels = list(labels or ())
        self._fixed = labels is not None
        self._places = {label: k for k, label in enumerate(self._labels)}
        self._changes: list[Change] = []
        self._index: dict[Hashable, int] = {}
        self._arms = array("q")
        self._propensities = array("d")
        self._distributions: dict[int, Mapping[Arm, float]] = {}
        """By the place of the decision."""
        self._floors: tuple[float, ...] | None = None
        self._rewards = array("d")
        self._waits = array("d")
        self._times = array("d")
        self._durations = array("d")
        self._at = -np.inf

    def guaranteed(self, floors: Sequence[float]) -> None:
        """Note the least probabilities of the arms that are guaranteed before the first decision."""
        self._floors = tuple(floors)

    def decided(
        self,
        id: Hashable,
        arm: Arm,
        propensity: float | None,
        at: float | None = None,
        distribution: Mapping[Arm, float] | None = None,
    ) -> None:
        """Note a decision; `at` is when it was made, in seconds. A clock that goes back is taken to stand still.

        distribution: the probabilities of all arms that were there.
        """
        if id in self._index:
            raise InvalidValue(f"decision {id!r} is there twice", "decision")
        place = self._places.get(arm)
        if place is None:
            if self._fixed:
                raise InvalidValue(f"decision {id!r} has the arm {arm!r}; known are {self._labels}", "arm")
            place = self._add(arm)
        if distribution is not None:
            self._distributions[len(self._arms)] = distribution
        self._index[id] = len(self._arms)
        self._arms.append(place)
        self._propensities.append(np.nan if propensity is None else propensity)
        self._rewards.append(np.nan)
        self._waits.append(np.inf)
        self._times.append(self._tell(at))
        self._durations.append(np.inf)

    def came(self, id: Hashable, loss: float, at: float | None = None) -> None:
        """Note an outcome, or a default in place of one. The first that came of a decision stays."""
        place = self._index.get(id)
        if place is None:
            raise InvalidValue(f"there is an outcome of decision {id!r}, which was not made before it", "decision")
        if self._waits[place] == np.inf:
            self._rewards[place] = 1.0 - loss
            self._waits[place] = len(self._arms) - 1 - place
            self._durations[place] = self._tell(at) - self._times[place]

    def changed(self, arm: Arm, present: bool) -> None:
        """Note that an arm came, anew or back, or that it left."""
        place = self._places.get(arm)
        if place is None:
            if self._fixed and not present:
                raise InvalidValue(f"arm {arm!r} leaves; known are {self._labels}", "arm")
            place = self._add(arm)
        self._changes.append(Change(len(self._arms), place, present))

    def _add(self, arm: Arm) -> int:
        place = self._places[arm] = len(self._labels)
        self._labels.append(arm)
        return place

    def _tell(self, at: float | None) -> float:
        """Return the time, which does not go back; nan where it is not known."""
        if at is None:
            return np.nan
        self._at = max(self._at, at)
        return self._at

    def log(self) -> Log:
        """Return the log so far."""
        order = list(range(len(self._labels)))
        if not self._fixed:
            order.sort(key=lambda k: (str(type(self._labels[k])), self._labels[k]))
        later = newcomers(self._changes)
        order = [k for k in order if k not in later] + later
        places = np.argsort(order)
        times, durations = np.array(self._times), np.array(self._durations)
        is_timed = times.size > 0 and not np.isnan(times).any() and not np.isnan(durations).any()
        labels = tuple(self._labels[k] for k in order)
        return Log(
            labels=labels,
            arms=places[np.array(self._arms, dtype=np.int64)],
            rewards=np.array(self._rewards),
            propensities=np.array(self._propensities),
            waits=np.array(self._waits),
            times=times if is_timed else None,
            durations=durations if is_timed else None,
            in_seconds=is_timed,
            distributions=distributions_of(self._distributions, len(self._arms), labels),
            floors=self._floors,
            changes=tuple(change._replace(arm=int(places[change.arm])) for change in self._changes),
        )


def distributions_of(
    rows: Mapping[int, Mapping[Arm, float]], size: int, labels: Sequence[Arm]
) -> NDArray[np.float64] | None:
    """Return the probabilities of all arms, nan in decisions of which they are not known; None where none has them."""
    if not rows:
        return None
    found = np.full((size, len(labels)), np.nan)
    for place, row in rows.items():
        found[place] = [row.get(label, 0.0) for label in labels]
    return found
