"""The FTRL solver for anyone: one distribution from loss estimates and two rates. Learners use its kernels."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated.core.ftrl import FEWEST_ARMS, MOST, MOST_ARMS, distribution
from belated.errors import InvalidValue


def ftrl_distribution(loss_estimates: ArrayLike, tsallis_rate: float, entropy_rate: float) -> NDArray[np.float64]:
    """Return the minimiser of <L, x> - 2 a sum sqrt(x_i) + b sum x_i (log x_i - 1) over the simplex.

    Parameters
    ----------
    loss_estimates
        L, one number per arm, 2 to 10,000 arms.
    tsallis_rate
        a >= 0, the paper's 1/eta_t. 0 leaves the entropy alone: exponential weights.
    entropy_rate
        b >= 0, the paper's 1/gamma_t. 0 leaves the Tsallis part alone: Tsallis-INF. Not both may be 0.

    >>> ftrl_distribution([0.0, 1.0, 5.0], tsallis_rate=1.0, entropy_rate=0.5).round(4).tolist()
    [0.66, 0.2977, 0.0424]
    """
    losses = np.asarray(loss_estimates, dtype=np.float64)
    if losses.ndim != 1 or not FEWEST_ARMS <= losses.size <= MOST_ARMS:
        raise InvalidValue(
            f"loss_estimates has shape {losses.shape}; one dimension of {FEWEST_ARMS} to {MOST_ARMS} arms is needed"
        )
    wrong = np.flatnonzero(~(np.abs(losses) <= MOST))
    if wrong.size:
        raise InvalidValue(f"loss_estimates[{wrong[0]}] is {losses[wrong[0]]}; a number up to {MOST:g} is needed")
    for name, rate in (("tsallis_rate", tsallis_rate), ("entropy_rate", entropy_rate)):
        if not (rate == 0.0 or 1.0 / MOST <= rate <= MOST):
            raise InvalidValue(f"{name} is {rate}; 0 or a number from {1.0 / MOST:g} to {MOST:g} is needed")
    if tsallis_rate == 0.0 == entropy_rate:
        raise InvalidValue("tsallis_rate and entropy_rate are both 0; at least one must be positive")
    return distribution(losses, float(tsallis_rate), float(entropy_rate))
