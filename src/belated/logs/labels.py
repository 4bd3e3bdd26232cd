"""The labels of arms: each has a number, the same in all pieces of a log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.logs.changes import Change, newcomers
from belated.logs.log import Arm, Integers
from belated.logs.rejections import NO_ARM, NO_LABEL, UNKNOWN_ARM, Checked
from belated.logs.values import EMPTY

if TYPE_CHECKING:
    import polars

_EMPTY, _UNKNOWN, _WRONG = -1, -2, -3
_SHOWN = 6
"""How many known arms an error names."""


class Labels:
    """Numbers the labels of arms."""

    def __init__(self, arms: Sequence[Arm] | None = None) -> None:
        """arms: all there may be, in their order; labels are compared with them as texts."""
        self._known = None if arms is None else {str(arm): k for k, arm in enumerate(arms)}
        self._labels: list[Arm] = [] if arms is None else list(arms)
        self._places: dict[Arm, int] = {}

    def places(self, rows: Checked, name: str) -> Integers:
        """Return the number of each row's arm. Rows without one are bad."""
        column = rows.frame[name]
        found = self._numbers(column)
        if (found < 0).any():
            rows.reject(found == _EMPTY, name, NO_ARM)
            rows.reject(found == _WRONG, name, NO_LABEL)
            listed = ", ".join(map(str, self._labels[:_SHOWN])) + (", …" if len(self._labels) > _SHOWN else "")
            rows.reject(found == _UNKNOWN, name, UNKNOWN_ARM, f"known are {listed}")
        return found

    def _numbers(self, column: "polars.Series") -> Integers:
        import polars

        if not len(column) or column.dtype == polars.Object or column.dtype.is_nested():
            return np.array([self._place(value) for value in column.to_list()], dtype=np.int32)
        if not (column.dtype == polars.String or column.dtype.is_numeric()):
            column = column.cast(polars.String)
        kinds = column.unique(maintain_order=True)
        places = polars.Series([self._place(value) for value in kinds.to_list()], dtype=polars.Int32)
        found: Integers = column.replace_strict(kinds, places, return_dtype=polars.Int32).to_numpy()
        return found

    def _place(self, label: Any) -> int:
        """Return the number of a label, a new one if need be."""
        if isinstance(label, float):
            if label != label:
                return _EMPTY
            label = int(label) if label.is_integer() else str(label)
        if isinstance(label, bool):
            label = str(label).lower()
        if label is None or (isinstance(label, str) and label.strip() in EMPTY):
            return _EMPTY
        if not isinstance(label, str | int):
            return _WRONG
        if self._known is not None:
            return self._known.get(str(label), _UNKNOWN)
        if label not in self._places:
            self._places[label] = len(self._labels)
            self._labels.append(label)
        return self._places[label]

    def sorted(
        self, places: Integers, changes: Sequence[Change] = ()
    ) -> tuple[tuple[Arm, ...], Integers, tuple[Change, ...]]:
        """Return the labels in their order, and the arms of decisions and of changes as places in it.

        Labels that no decision and no change has count only if all labels were given. Arms that were not there at the
        beginning are last, in the order of their coming.
        """
        order = list(range(len(self._labels)))
        if self._known is None:
            chosen = np.bincount(places, minlength=len(order))
            chosen[[change.arm for change in changes]] = 1
            order = [k for k in order if chosen[k]]
            order.sort(key=lambda k: (str(type(self._labels[k])), self._labels[k]))
        later = newcomers(changes)
        order = [k for k in order if k not in later] + later
        new = np.zeros(len(self._labels), dtype=np.int64)
        new[order] = np.arange(len(order))
        changed = tuple(change._replace(arm=int(new[change.arm])) for change in changes)
        return tuple(self._labels[k] for k in order), new[places], changed
