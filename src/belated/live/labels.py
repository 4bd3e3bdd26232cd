"""What arms are called: strings or integers at the edges, their places inside."""

from collections.abc import Sequence

import numpy as np

from belated.core.ftrl import FEWEST_ARMS, MOST_ARMS
from belated.errors import InvalidValue

Arm = str | int


def arm_labels(arms: Sequence[Arm] | int) -> list[Arm]:
    """Return the labels of arms given by labels or by number, all different and not too few."""
    if isinstance(arms, bool | str | bytes | float) or not isinstance(arms, int | np.integer | Sequence | np.ndarray):
        raise InvalidValue(f"arms is {arms!r}; a number of arms or a list of labels is needed", "arms")
    labels: list[Arm] = list(range(int(arms))) if isinstance(arms, int | np.integer) else list(arms)
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not FEWEST_ARMS <= len(labels) <= MOST_ARMS:
        count = arms if isinstance(arms, int | np.integer) else len(labels)
        raise InvalidValue(f"there are {count} arms; {FEWEST_ARMS} to {MOST_ARMS} are needed", "arms")
    seen: set[Arm] = set()
    for label in labels:
        check_label(label, "arms")
        if label in seen:
            raise InvalidValue(f"arm {label!r} is given twice; labels must differ", "arms")
        seen.add(label)
    return labels


def check_label(label: object, field: str) -> None:
    """Refuse what cannot be the label of an arm."""
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise InvalidValue(f"arm {label!r} is a {type(label).__name__}; labels are strings or integers", field)
