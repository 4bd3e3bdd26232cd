"""The default learner: follows what the outcomes say as long as that pays, under the guard of a regularised leader.

Two distributions are kept. The pilot q takes losses as stochastic: mean losses by age (`belated.learners.by_age`),
matched by probability (`belated.learners.matching`). The leader x takes nothing for granted: it follows the
regularised leader on importance-weighted losses, as `balanced` does. What is played is

    p_t = w_t q_t + (1 - w_t) x_t.

When the outcome of round s arrives in round t, d = loss - b being measured against the level b of recent losses,

    L_I += d / p_{s,I},                                                         the leader's estimate
    C   += d (q_{s,I} - x_{s,I}) / p_{s,I}, in expectation <q_s - x_s, loss_s>,       what the pilot costs more
    B   += d (x_{s,I} - x_{t,I}) / p_{s,I}, in expectation <x_s - x_t, loss_s>,       what delay costs the leader.

The weight of the pilot is that of a forecaster with two experts, exponential weights with an adaptive rate,

    w = 1 / (1 + exp(0.63 C / sqrt(V + 10) - 3)),       V = sum of w (1 - w) (the step of C)^2,

and at most 0.95: the leader keeps a share with which it can see, less (down to 1/64) only where the pilot is ahead by
more than a leader can lose. Where all losses shift together (a shift explains more than a tenth of the variance), means
over time mislead, and w goes to 0. Both rates of the leader are paid by what they are there for, the Tsallis part by
noise, the entropy by delay:

    x_t = argmin <L, x> - 2 a sum sqrt(x_i) + (kappa B_t / log K) sum x_i (log x_i - 1),
    a^2 = sum of d^2 rho,    rho = (sum sqrt(x_i)(1 - x_i) x_i / p_i) / (sum sqrt(x_i)(1 - x_i)),    kappa = 3,

B_t being the largest value that B has had and rho the price of seeing through p instead of x. An arm with
p_i < 4 b^2 / a^2 is measured without the baseline, as in reduced variance (Zimmert & Seldin 2021): loss / p_{s,I} is
added to the arm that was played, if p_{s,I} is so small, and -b to every arm whose p_i is now. In B and C no ratio of
probabilities counts as more than 127. While the pilot has
most of the weight the leader moves once for every four outcomes, and the pilot is estimated anew whenever the number of
rounds since an arm came, or since the first, has grown by a 64th.

Every outcome is learned from, however late. A decision is given up only when it is 100,000 rounds old and 32 times as
old as the longest delay seen. docs/theory.md says what is proved, docs/tuning.md what was measured.
"""

import math

import numpy as np

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import balanced, by_age, matching, rearm
from belated.learners.learner import Gauge, Learner, Parameter
from belated.learners.rearm import NEW, Floats, Integers

(
    ROUND,
    DECIDED,  # the round of the decision that is learned from
    ARMS,  # how many, in the lower ARM_BITS, and above them the round after which the last of them came
    UNSETTLED,  # outcomes since the leader's shares were brought up to date
    MOVED,  # whether its shares have moved in this round
    NEXT,  # the round of the next estimate
    LEVEL,  # the mean of recent losses
    RECENT,  # how many they are
    NOISE,  # a^2
    PRICE,  # rho
    DELAY_COST,  # the running sum B
    HIGHEST,  # the largest value it has had
    PILOT_COST,  # C
    PILOT_NOISE,  # V
    LOCAL,  # the sum of squares around the mean of the arm and the shift
    OVERALL,  # the sum of squares around the mean of the arm
    SHIFT,  # the mean of recent losses less the mean of their arm
) = range(ftrl.OWN, ftrl.SINGLES)

# Behind the leader: single numbers, then q, then the table of `by_age`.
WEIGHT = 0  # w
LEAST = 1  # the smallest p_i
MORE = 2

KAPPA = 0
PILOT = 1

WINDOW = 64.0  # outcomes that make the level
EVERY = 64.0  # the pilot is estimated anew when t, since an arm came, has grown by one in so many
ARM_BITS = 14  # enough for ftrl.MOST_ARMS
TRUST = 3.0  # in the exponent of w: the odds with which the pilot begins
GIVE_WAY = 0.63  # the factor of C / sqrt(V) there
SURPRISE = 10.0  # added to V: so much is no evidence
LEAST_LEADER = 1.0 / 64.0  # the smallest share of the leader, however far behind it is
STEADY = 0.1  # the part of the variance that a shift may explain before the pilot loses trust,
UNSTEADY = 0.2  # and the part at which it has none
LAZY = 4.0  # outcomes that the leader waits for before it moves, while the pilot has most of the weight
RARE_BELOW = 4.0
YOUNG_NOISE = 128.0  # a^2 an arm, at most, of a leader that goes on with an arm that has come
PATIENCE = 100_000.0
TIMES_LONGEST = 32.0
_BITS = 2.0**26
_UNIT = _BITS / 128.0  # of the two ratios in a mark, each below 128
_MOST = 127.0  # the largest ratio of two probabilities: a single outcome must not decide everything


def size(n_arms: int) -> int:
    return ftrl.size(n_arms) + MORE + n_arms + by_age.size(n_arms)


@kernel(inline=True)
def _leader_size(arms: int) -> int:
    return ftrl.SINGLES + ftrl.FIELDS * ftrl.LANES * ((arms + ftrl.LANES - 1) // ftrl.LANES)


@kernel(inline=True)
def _arms(own: Vector) -> int:
    """Return the number of arms."""
    return int(own[ARMS]) & ((1 << ARM_BITS) - 1)


@kernel(inline=True)
def _baseline(own: Vector, table: Vector) -> float:
    """Return the level of recent losses, mixed with 1/2 as far as outcomes are missing."""
    arrived = table[by_age.ARRIVED]
    return float(arrived * own[LEVEL] + (1.0 - arrived) * 0.5)


@kernel
def _begin(own: Vector, q: Vector) -> None:
    own[ARMS] = q.size
    own[UNSETTLED] = LAZY
    own[LEVEL] = 0.5
    own[RECENT] = 2.0
    own[NOISE] = 0.25
    own[PRICE] = 1.0
    own[NEXT] = 2.0
    for i in range(q.size):
        q[i] = 1.0 / q.size


@kernel
def _renew(table: Vector, q: Vector, now: float) -> None:
    """Estimate the means anew, and with them the pilot."""
    arms = q.size
    by_age.estimate(table, arms, now)
    means = table[by_age.at(arms, by_age.MEAN) : by_age.at(arms, by_age.MEAN) + arms]
    weights = table[by_age.at(arms, by_age.WEIGHT) : by_age.at(arms, by_age.WEIGHT) + arms]
    matching.match(means, weights, table[by_age.MEAN_LOSS], table[by_age.SPREAD], q)


@kernel(inline=True)
def _weight(own: Vector, table: Vector, most: float, arms: int) -> float:
    """Return w, the weight of the pilot."""
    if most == 0.0:
        return 0.0
    ahead = -own[PILOT_COST]
    w = 1.0 / (1.0 + math.exp(min(-GIVE_WAY * ahead / math.sqrt(own[PILOT_NOISE] + SURPRISE) - TRUST, 50.0)))
    leader = 1.0 - most
    enough = math.sqrt(arms * own[NOISE] / max(own[PRICE], 1.0))
    if ahead > enough:  # the pilot is ahead by more than a leader can lose
        leader = max(leader * enough / ahead, min(leader, LEAST_LEADER))
    moving = 1.0 - (own[LOCAL] + 1.0) / (own[OVERALL] + 1.0)
    moving *= 1.0 - min(max((table[by_age.DEPENDENCE] - 0.2) / 0.2, 0.0), 1.0)
    steady = min(max((UNSTEADY - moving) / (UNSTEADY - STEADY), 0.0), 1.0)
    return min(w, 1.0 - leader) * steady


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    arms = p.size
    first = _leader_size(arms)
    own = state[:first]
    more = state[first : first + MORE]
    q = state[first + MORE : first + MORE + arms]
    table = state[first + MORE + arms :]
    own[ROUND] += 1.0
    now = own[ROUND]
    own[MOVED] = 0.0
    renewed = False
    if now == 1.0:
        _begin(own, q)
    elif now >= own[NEXT]:
        renewed = True
        _renew(table, q, now)
        together = now - (int(own[ARMS]) >> ARM_BITS)  # rounds since an arm came, or all
        own[NEXT] = now + max(1.0, math.floor(together / EVERY))
    if params[PILOT] == 1.0:  # no leader
        for i in range(arms):
            p[i] = q[i]
        return 0.0
    w = more[WEIGHT]
    if renewed or own[UNSETTLED] >= (LAZY if w > 0.5 else 1.0):
        own[UNSETTLED] = 0.0
        ftrl.solve(own, math.sqrt(own[NOISE]), params[KAPPA] / math.log(arms) * own[HIGHEST], p)
        w = more[WEIGHT] = _weight(own, table, params[PILOT], arms)
        if w == 0.0:
            own[PRICE] = 1.0
        elif renewed:
            _price(own, q, w, p)
    least = 1.0
    for i in range(arms):
        p[i] = w * q[i] + (1.0 - w) * ftrl.share(own, i)
        least = min(least, p[i])
    more[LEAST] = least
    return 0.0


@kernel
def chosen(state: Vector, params: Vector, arm: int, propensity: float, mark: float) -> float:
    arms = _arms(state)
    first = _leader_size(arms) + MORE
    by_age.count(state[first + arms :], arms, arm)
    if params[PILOT] == 1.0:
        return 0.0
    leads = math.floor(min(ftrl.share(state, arm) / propensity, _MOST) * _UNIT)
    pilots = math.floor(min(state[first + arm] / propensity, _MOST) * _UNIT)
    return leads * _BITS + pilots


@kernel(inline=True)
def _price(own: Vector, q: Vector, w: float, x: Vector) -> None:
    """Write rho, the noise of estimates under p in units of what it would be under x."""
    seen = 0.0
    whole = 0.0
    for i in range(q.size):
        part = math.sqrt(x[i]) * (1.0 - x[i])
        whole += part
        if x[i] > 0.0:
            seen += part * x[i] / (w * q[i] + (1.0 - w) * x[i])
    own[PRICE] = seen / whole if whole > 0.0 else 1.0


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    arms = _arms(state)
    first = _leader_size(arms)
    own = state[:first]
    table = state[first + MORE + arms :]
    if params[PILOT] < 1.0:
        more = state[first : first + MORE]
        q = state[first + MORE : first + MORE + arms]
        _teach_leader(own, more, q, table, arm, loss, propensity, mark)
        _follow_level(own, table, arm, loss)
    by_age.add(table, arms, arm, loss, own[ROUND] - own[DECIDED])


@kernel(inline=True)
def _teach_leader(
    own: Vector, more: Vector, q: Vector, table: Vector, arm: int, loss: float, propensity: float, mark: float
) -> None:
    """Add an outcome to the leader's losses, and to the costs of delay and of the pilot."""
    whole = math.floor(mark / _BITS)
    leads = whole / _UNIT
    pilots = (mark - whole * _BITS) / _UNIT
    b = _baseline(own, table)
    w = more[WEIGHT]
    d = loss - b
    rare = RARE_BELOW * b * b / own[NOISE]  # with a smaller probability an arm is measured without the baseline
    own[NOISE] += d * d * own[PRICE]
    if own[UNSETTLED] >= (LAZY if w > 0.5 else 1.0):
        ftrl.settle(own, q.size)
        own[UNSETTLED] = 0.0
        own[MOVED] = 1.0
    if own[ROUND] > own[DECIDED] or own[MOVED] != 0.0:  # else nothing has moved since the decision
        own[DELAY_COST] += d * (leads - min(ftrl.share(own, arm) / propensity, _MOST))
        own[HIGHEST] = max(own[HIGHEST], own[DELAY_COST])
    own[UNSETTLED] += 1.0
    cost = d * (pilots - leads)
    own[PILOT_COST] += cost
    own[PILOT_NOISE] += w * (1.0 - w) * cost * cost
    ftrl.add_loss(own, arm, (loss if propensity < rare else d) / propensity)
    if more[LEAST] < rare:
        for i in range(q.size):
            if w * q[i] + (1.0 - w) * ftrl.share(own, i) < rare:
                ftrl.add_loss(own, i, -b)


@kernel(inline=True)
def _follow_level(own: Vector, table: Vector, arm: int, loss: float) -> None:
    """Move the level towards a loss, and add up squares around the mean of the arm, with and without a common shift."""
    own[RECENT] += 1.0
    step = 1.0 / min(own[RECENT], WINDOW)
    own[LEVEL] += step * (loss - own[LEVEL])
    arms = _arms(own)
    overall = loss - (table[by_age.at(arms, by_age.TOTAL_LOSS) + arm] + own[LEVEL]) / (
        table[by_age.at(arms, by_age.CAME) + arm] + 1.0
    )
    local = overall - own[SHIFT]
    own[SHIFT] += step * local
    own[LOCAL] += local * local
    own[OVERALL] += overall * overall


@kernel
def patience(state: Vector, params: Vector) -> float:
    arms = _arms(state)
    return float(max(PATIENCE, TIMES_LONGEST * state[_leader_size(arms) + MORE + arms + by_age.LONGEST]))


def rearmed(state: Floats, n_arms: int, kept: Integers) -> Floats:
    """Rearm the leader and the pilot's table, and let the pilot be estimated anew.

    When an arm comes, the pilot is estimated as often as after a start. The leader's noise and measured cost, and the
    evidence for the pilot, are taken back to those of a younger leader, with its losses: shares and w stay as they are,
    and follow what is new faster.
    """
    first = ftrl.size(n_arms)
    own = rearm.leader(state[:first], n_arms, kept)
    more = state[first : first + MORE].copy()
    q = np.full(kept.size, 1.0 / kept.size if own[ROUND] else 0.0)
    table = by_age.rearmed(state[first + MORE + n_arms :], n_arms, kept)
    if own[ROUND]:
        came = int(own[ROUND]) if (kept == NEW).any() else int(own[ARMS]) >> ARM_BITS
        own[ARMS] = (came << ARM_BITS) + kept.size
        own[NEXT] = own[ROUND] + 1.0
        own[UNSETTLED] = LAZY
        part = rearm.young_part(state[:first], n_arms, kept, float(state[NOISE]), YOUNG_NOISE)
        if part < 1.0:
            rearm.make_younger(own, kept.size, part)
            own[[NOISE, PILOT_NOISE]] *= part
            own[[DELAY_COST, HIGHEST, PILOT_COST]] *= math.sqrt(part)
    return np.concatenate([own, more, q, table])


LEARNER = Learner(
    name="guarded",
    summary="plays what the outcomes say, under the guard of a regularised leader; measured, proved in part",
    paper="this project, docs/theory.md",
    size=size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    chosen=chosen,
    learn=learn,
    patience=patience,
    rearm=rearmed,
    round_at=DECIDED,
    bias="the baseline and which arms are rare, both as of the arrival",
    gauges=(
        Gauge("balance", "B, against √(2 D_T log K / κ)", "docs/theory.md, a sketch", HIGHEST, balanced.allowed_cost),
    ),
    parameters=(
        Parameter("kappa", 3.0, 0.0, 1e9, "κ, the factor of the measured cost of delay in the entropy rate"),
        Parameter("pilot", 0.95, 0.0, 1.0, "the largest share of the pilot; 0: the leader alone, 1: the pilot alone"),
    ),
)
