"""Slow reference implementations of the algorithms, one literal function each.

Rounds are numbered t = 1, 2, ..., so that the data of round t stand at index t - 1; arms are numbered from 0.
The outcome of round s arrives at the end of round s + d_s, or never when d_s is None. Several outcomes of one round
are handled in the order of s. Sums and sets are computed anew from the whole history. There must be at least two arms.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

Losses = Sequence[Sequence[float]]
Delays = Sequence[int | None]
Draws = Sequence[float]


class Run(NamedTuple):
    """What happened in all rounds. The fields after the first two are filled where they make sense."""

    arms: list[int]
    distributions: list[list[float]]
    skipped: list[int] = []  # noqa: RUF012
    switched: int = 0
    eliminated: list[tuple[int, int]] = []  # noqa: RUF012
    errors: int = 0
    levels: int = 0


def choose(x: Sequence[float], u: float) -> int:
    """Return the first arm at which the running sum of x exceeds u."""
    for i in range(len(x)):
        if u < sum(x[: i + 1]):
            return i
    return max(i for i in range(len(x)) if x[i] > 0)


def arrived(delays: Delays, s: int, t: int) -> bool:
    """Tell whether the outcome of round s is there when round t begins."""
    d = delays[s - 1]
    return d is not None and s + d < t


def outstanding(delays: Delays, t: int) -> list[int]:
    """Return the rounds before t whose outcomes are not there when round t begins."""
    return [s for s in range(1, t) if not arrived(delays, s, t)]


def arriving(delays: Delays, t: int) -> list[int]:
    """Return the rounds whose outcomes arrive at the end of round t."""
    return [s for s in range(1, t + 1) if arrived(delays, s, t + 1) and not arrived(delays, s, t)]


def estimate(losses: Losses, run: Run, rounds: Sequence[int]) -> list[float]:
    """Sum the importance-weighted losses of the given rounds."""
    total = [0.0] * len(losses[0])
    for s in rounds:
        arm = run.arms[s - 1]
        total[arm] += losses[s - 1][arm] / run.distributions[s - 1][arm]
    return total


def play(run: Run, x: list[float], u: float) -> None:
    """Draw the arm of the next round from x and write both down."""
    run.arms.append(choose(x, u))
    run.distributions.append(x)


def root(a: float, b: float, c: float) -> float:
    """Solve a z + 2 b log z = c for z >= 1, where c >= a.

    The left side is increasing and concave, so Newton's steps from z = 1 go up and never pass the solution.
    """
    z = 1.0
    while True:
        higher = z + (c - a * z - 2 * b * math.log(z)) / (a + 2 * b / z)
        if higher <= z:
            return z
        z = higher


def ftrl(total: Sequence[float], a: float, b: float) -> list[float]:
    """Minimise <L, x> - 2 a sum sqrt(x_i) + b sum x_i (log x_i - 1) over the simplex.

    At the minimum L_i - a / sqrt(x_i) + b log x_i = mu for all i. With z_i = 1 / sqrt(x_i) this is
    a z_i + 2 b log z_i = L_i - mu. The sum of x increases with mu; bisect until no number lies between the ends.
    """
    k = len(total)
    shifted = [value - min(total) for value in total]
    low, high = -a * math.sqrt(k) - b * math.log(k), -a
    while True:
        mu = (low + high) / 2
        x = [root(a, b, value - mu) ** -2 for value in shifted]
        if not low < mu < high:
            return x
        if sum(x) < 1:
            low = mu
        else:
            high = mu


def softmax(total: Sequence[float], eta: float) -> list[float]:
    """Return the distribution proportional to exp(-eta L)."""
    weights = [math.exp(-eta * (value - min(total))) for value in total]
    return [weight / sum(weights) for weight in weights]


def _regularised(
    losses: Losses, delays: Delays, draws: Draws, scales: Callable[[int, int], tuple[float, float]]
) -> Run:
    """Play FTRL with (a, b) = scales(t, D_t), where D_t sums the outstanding counts of rounds 1..t."""
    run = Run([], [])
    counts: list[int] = []
    for t in range(1, len(losses) + 1):
        counts.append(len(outstanding(delays, t)))
        a, b = scales(t, sum(counts))
        total = estimate(losses, run, [s for s in range(1, t) if arrived(delays, s, t)])
        play(run, ftrl(total, a, b), draws[t - 1])
    return run


def hybrid(losses: Losses, delays: Delays, draws: Draws, *, delay_constant: float = 2.0) -> Run:
    """Play FTRL with both regularisers, the second one scaled by the outstanding counts."""
    log_k = math.log(len(losses[0]))
    return _regularised(losses, delays, draws, lambda t, d: (math.sqrt(t), math.sqrt(delay_constant * d / log_k)))


def damped(losses: Losses, delays: Delays, draws: Draws, *, longest_delay: float) -> Run:
    """Play the hybrid with both scales enlarged from the start, by what the longest delay asks for."""
    k, d = len(losses[0]), longest_delay
    log_k = math.log(k)
    eta0 = 10 * d + d**2 / (k ** (1 / 3) * log_k) ** 2
    gamma0 = 24**2 * d**2 * k ** (2 / 3) * log_k
    return _regularised(losses, delays, draws, lambda t, c: (math.sqrt(t + eta0), math.sqrt((c + gamma0) / log_k)))


def hybrid_skipping(losses: Losses, delays: Delays, draws: Draws) -> Run:
    """Play the hybrid, giving up counting rounds that have been outstanding for too long."""
    run = Run([], [], [])
    counts: list[int] = []
    for t in range(1, len(losses) + 1):
        counts.append(len([s for s in outstanding(delays, t) if s not in run.skipped]))
        b = math.sqrt(sum(counts) / math.log(len(losses[0])))
        total = estimate(losses, run, [s for s in range(1, t) if arrived(delays, s, t)])
        play(run, ftrl(total, math.sqrt(t), b), draws[t - 1])
        late = [s for s in outstanding(delays, t + 1) if s < t and s not in run.skipped and t - s > b]
        run.skipped.append(min(late, default=0))
    return run


def ucb1(fed: Sequence[tuple[int, float]], k: int, exploration: float) -> int:
    """Return the next prediction of UCB1 after the (arm, loss) pairs in fed."""
    n = len(fed) + 1
    indices = []
    for i in range(k):
        own = [loss for arm, loss in fed if arm == i]
        if not own:
            return i
        indices.append(1 - sum(own) / len(own) + math.sqrt(exploration * math.log(n) / len(own)))
    return indices.index(max(indices))


def queued(losses: Losses, delays: Delays, draws: Draws, *, exploration: float = 2.0) -> Run:
    """Play what UCB1 asks for until an outcome of that arm is in its queue."""
    k = len(losses[0])
    run = Run([], [])
    fed: list[tuple[int, float]] = []
    queues: list[list[float]] = [[] for _ in range(k)]
    for t in range(1, len(losses) + 1):
        arm = ucb1(fed, k, exploration)
        while queues[arm]:
            fed.append((arm, queues[arm].pop(0)))
            arm = ucb1(fed, k, exploration)
        play(run, [1.0 if i == arm else 0.0 for i in range(k)], draws[t - 1])
        for s in arriving(delays, t):
            queues[run.arms[s - 1]].append(losses[s - 1][run.arms[s - 1]])
    return run


def bold(losses: Losses, delays: Delays, draws: Draws, *, base: str) -> Run:
    """Play with a pool of instances of the base, "tsallis" or "exp3", each waiting for its own outcomes."""
    assert base in ("tsallis", "exp3")
    k = len(losses[0])
    run = Run([], [])
    pool: list[list[int]] = []  # for each instance its rounds
    free: list[int] = []  # the most recently freed instance stands last
    for t in range(1, len(losses) + 1):
        if not free:
            pool.append([])
            free.append(len(pool) - 1)
        own = pool[free.pop()]
        total = estimate(losses, run, own)
        own.append(t)
        n = len(own)
        if base == "tsallis":
            play(run, ftrl(total, math.sqrt(n), 0.0), draws[t - 1])
        else:
            play(run, softmax(total, math.sqrt(math.log(k) / (n * k))), draws[t - 1])
        for s in arriving(delays, t):
            free += [j for j in range(len(pool)) if s in pool[j]]
    return run


def exp3_delayed(losses: Losses, delays: Delays, draws: Draws) -> Run:
    """Play exponential weights in epochs of doubling size. The delay of a round is known when it is decided."""
    k = len(losses[0])
    log_k = math.log(k)
    run = Run([], [])
    m, start = 1, 1  # the present epoch and its first round
    for t in range(1, len(losses) + 1):
        while True:
            beta = math.sqrt(2**m) / (4 * math.e * log_k)
            epoch = range(start, t + 1)
            kept = {s: d for s in epoch if (d := delays[s - 1]) is not None and d <= beta}
            skips = len(epoch) - len(kept)
            if max(skips**2, (math.e * k / 2 * len(epoch) + sum(kept.values())) * log_k) <= 2**m:
                break
            m, start = m + 1, t
        total = estimate(losses, run, [s for s in kept if arrived(delays, s, t)])
        play(run, softmax(total, log_k / math.sqrt(2**m)), draws[t - 1])
    return run


class Audit:
    """What is kept for an eliminated arm: its level, its present phase, and the bank of rounds of other levels."""

    def __init__(self, probability: float, mean: float, gap: float, length: float) -> None:
        self.first_probability, self.first_length = probability, length
        self.mean, self.gap, self.length = mean, gap, length
        self.level = self.highest = self.errors = 0
        self.bank: list[tuple[int, float]] = []
        self.begin_phase()

    def begin_phase(self) -> None:
        self.count, self.sum = 0, 0.0

    def probability(self) -> float:
        return self.first_probability / 2.0**self.level

    def receive(self, level: int, value: float, most_errors: float) -> bool:
        """Take a round of the given level, and then banked rounds as long as some match. Return whether to switch.

        Every round enters the bank at its end. No older one has the present level, so a round of that level leaves at
        once. When a phase begins, the first match in the bank is the next to join.
        """
        self.bank.append((level, value))
        while matches := [entry for entry in self.bank if entry[0] == self.level]:
            self.bank.remove(matches[0])
            self.count += 1
            self.sum += matches[0][1]
            if self.count * self.mean - self.sum >= 0.25 * self.gap * self.length:
                self.errors += 1
                self.length = max(self.first_length, self.length / 2)
                self.level = max(0, self.level - 1)
                self.begin_phase()
                if self.errors >= most_errors:
                    return True
            elif self.count == max(1, math.floor(self.length)):
                self.length = 2 * self.length
                self.level += 1
                self.highest = max(self.highest, self.level)
                self.begin_phase()
        return False


def sapo(
    losses: Losses,
    delays: Delays,
    draws: Draws,
    *,
    horizon: int,
    elimination_widths: float = 9.0,
    regret_constant: float = 272.0,
    phase_constant: float = 1280.0,
) -> Run:
    """Eliminate arms as if losses were stochastic, audit this, and switch to hybrid_skipping when it fails."""
    k, log_t = len(losses[0]), math.log(horizon)
    run = Run([], [], [], 0, [])
    levels: list[list[int | None]] = []  # for each round the levels of the arms when it was decided
    processed: list[int] = []
    audits: dict[int, Audit] = {}
    ucb, lcb = [math.inf] * k, [-math.inf] * k  # from empirical means
    ucb_bar, lcb_bar = [math.inf] * k, [-math.inf] * k  # from importance-weighted means
    sigma_max = 0

    def process(t: int, s: int) -> bool:
        """Process the outcome of round s at the end of round t. Return whether to switch."""
        processed.append(s)
        before = sorted(audits)
        active = [i for i in range(k) if i not in audits]
        # (a) Statistics and bounds.
        own = [[losses[r - 1][i] for r in processed if run.arms[r - 1] == i] for i in range(k)]
        mean = [sum(values) / len(values) if values else 0.0 for values in own]
        width = [min(1.0, math.sqrt(2 * log_t / len(values))) if values else 1.0 for values in own]
        mean_bar = [value / len(processed) for value in estimate(losses, run, processed)]
        wide = math.sqrt(2 * k * log_t / len(processed))
        width_bar = min(1.0, wide)
        for i in active:
            ucb[i], lcb[i] = min(ucb[i], mean[i] + width[i]), max(lcb[i], mean[i] - width[i])
            ucb_bar[i], lcb_bar[i] = min(ucb_bar[i], mean_bar[i] + width_bar), max(lcb_bar[i], mean_bar[i] - width_bar)
        best = min(ucb + ucb_bar)
        # (b) The test, once the width needs no cap: before that a weighted mean may lie far above 1.
        if wide <= 1 and any(mean_bar[i] < lcb[i] - wide or mean_bar[i] > ucb[i] + wide for i in active):
            return True
        regret = sum(losses[r - 1][run.arms[r - 1]] - best for r in processed)
        if regret > regret_constant * math.sqrt(k * horizon) * log_t + 10 * sigma_max * math.log(k):
            return True
        # (c) Elimination.
        for i in active:
            if mean[i] - elimination_widths * width[i] > best:
                if len(audits) == k - 1:
                    return True
                p, gap = 1 / (2 * k) + len(own[i]) / (2 * horizon), 8 * width[i]
                audits[i] = Audit(p, mean[i], gap, phase_constant / (p * gap**2))
                run.eliminated.append((t, i))
        # (d) The audit of arms eliminated before.
        for i in before:
            level = levels[s - 1][i]
            if level is not None:
                value = losses[s - 1][i] / run.distributions[s - 1][i] if run.arms[s - 1] == i else 0.0
                if audits[i].receive(level, value, 3 * log_t):
                    return True
        return False

    switched = 0
    for t in range(1, len(losses) + 1):
        sigma_max = max(sigma_max, len(outstanding(delays, t)))
        levels.append([audits[i].level if i in audits else None for i in range(k)])
        rest = 1 - sum(audits[i].probability() for i in sorted(audits))
        x = [audits[i].probability() if i in audits else rest / (k - len(audits)) for i in range(k)]
        play(run, x, draws[t - 1])
        if any(process(t, s) for s in arriving(delays, t)):  # any() stops at the first switch
            switched = t
            tail = hybrid_skipping(losses[t:], delays[t:], draws[t:]) if t < len(losses) else Run([], [])
            run = run._replace(arms=run.arms + tail.arms, distributions=run.distributions + tail.distributions)
            break
    errors = sum(audit.errors for audit in audits.values())
    highest = max((audit.highest for audit in audits.values()), default=0)
    return run._replace(switched=switched, errors=errors, levels=highest)
