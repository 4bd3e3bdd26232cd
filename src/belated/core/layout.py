"""Where the numbers of one field stand in a learner's state."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Layout(NamedTuple):
    """Arms in groups of `width` neighbours, a group every `step` numbers: arm i is at first + i // width * step + i
    % width.

    >>> Layout(first=1, width=1, step=3).places(3).tolist()
    [1, 4, 7]
    """

    first: int = 0
    width: int = 1
    step: int = 1

    def places(self, n_arms: int) -> NDArray[np.int64]:
        arms = np.arange(n_arms)
        return self.first + arms // self.width * self.step + arms % self.width
