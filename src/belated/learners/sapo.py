"""Delayed SAPO (Schlisselberg, Lancewicki, Auer & Mansour 2025), "Improved Best-of-Both-Worlds Regret for Bandits with
Delayed Feedback": the successor of Masoudian et al. (2024). It assumes stochastic losses until a test fails, then hands
over to an adversarial learner, here `hybrid_skipping`. It must know the horizon T.

Outcomes are processed one by one as they arrive. S is the set of those processed, n_i the plays of arm i among them.

    mean_i, the mean loss of those plays,                   width_i = min(1, sqrt(2 log T / n_i)),
    weighted_i = sum of [I_s = i] loss / x_{s,i} over |S|,  wide = sqrt(2 K log T / |S|),
    ucb_i, lcb_i = mean_i +- width_i and ucb'_i = weighted_i + min(1, wide), each the best so far; ucb* their minimum.

After each outcome:

- Test whether losses are still stochastic. It hands over if wide <= 1 and some active arm has weighted_i outside
  [lcb_i - wide, ucb_i + wide], or if
  sum over S of (loss - ucb*) > 272 sqrt(KT) log T + 10 sigma_max log K.
- An active arm with mean_i - 9 width_i > ucb* is eliminated: it is played with probability p_i = 1/(2K) + n_i / (2T)
  from now on, with held_i = mean_i, gap_i = 8 width_i and phases of N_i = 1280 / (p_i gap_i^2) rounds.
- Each eliminated arm is audited in phases, on the rounds in which its probability was the present p_i. (Other rounds
  wait in a bank until p_i has that value again.) After n rounds of a phase, with L the sum of the arm's weighted losses
  in it: if n held_i - L >= gap_i N_i / 4, the phase ends with an error. Then p_i doubles and N_i halves, neither beyond
  its first value; after 3 log T errors it hands over. If n = N_i, the phase ends without error, p_i halves and N_i
  doubles.
- Active arms share the rest of the probability equally.

Regret against any losses: O(sqrt(KT) log T) plus that of the learner it hands over to (recalled, not checked against
the paper). Regret where losses are stochastic: O(sum_i log T / Delta_i + (1/K) sum_i sigma_max Delta_i) (published).

The paper leaves four points open, or they do not work as written. We read them as follows:

- The paper caps `wide` at 1 also in the test of weighted_i, which can be K after one outcome. With many arms it would
  then hand over within a few rounds. Here the test starts when wide <= 1, that is after 2 K log T outcomes.
- log T stands outside the root in the test of the regret.
- The bounds of eliminated arms stay as they were.
- If the only active arm would be eliminated, it hands over.

The constants 9, 272 and 1280 are parameters. With them no arm is eliminated before n_i is about 200 log T / Delta_i^2.
"""

import math

from belated.core import ftrl, pages
from belated.core.kernels import Vector, kernel
from belated.core.layout import Layout
from belated.learners import ftrl_steps, hybrid_skipping
from belated.learners.knowledge import HORIZON
from belated.learners.learner import Learner, Pages, Parameter

T = 0
WIDTHS = 1
REGRET = 2
PHASE = 3

# The state: single numbers, FIELDS numbers for each arm, the state of the learner that may take over, the pages.
ROUND = 0
ARMS = 1
ACTIVE = 2  # how many arms are
SEEN = 3  # |S|
PAID = 4  # the sum of losses in S
MOST_OUTSTANDING = 5  # sigma_max
HANDED_OVER = 6  # in which round, at its end; 0: not yet
BANK = 7  # the two ends of the list of pages that some audit still waits for
HEAD = 9  # of the pages
SINGLES = HEAD + pages.HEAD_FIELDS

# For each arm.
WEIGHTED = 0  # the sum of [I_s = i] loss / x_{s,i}
LOSSES = 1  # the sum of losses
PLAYS = 2  # n_i
UCB = 3
LCB = 4
WEIGHTED_UCB = 5
ELIMINATED = 6  # 1 where it is; the rest is of eliminated arms
FIRST_P = 7
HELD = 8
GAP = 9
FIRST_LENGTH = 10
LENGTH = 11  # N_i
LEVEL = 12  # p_i = first p_i / 2^level
ERRORS = 13
COUNT = 14  # of the phase
CHARGED = 15  # the weighted losses of the phase
FIELDS = 16

# On a page: a round that was decided before the hand-over, and for each arm 1 + its level then, or 0: nothing to audit.
ARM = 1
LOSS = 2  # weighted
WAITING = 3  # for how many arms this round waits in the bank
LEVELS = 4

ADVERSARIAL = -1.0  # the mark of decisions after the hand-over


@kernel(inline=True)
def at(arm: int) -> int:
    """Return where the fields of an arm begin in the state."""
    return SINGLES + FIELDS * arm


@kernel(inline=True)
def _width(plays: float, horizon: float) -> float:
    return min(1.0, math.sqrt(2.0 * math.log(horizon) / plays)) if plays > 0.0 else 1.0


@kernel
def _distribution(state: Vector, p: Vector) -> None:
    rest = 1.0
    for i in range(p.size):
        if state[at(i) + ELIMINATED] != 0.0:
            p[i] = state[at(i) + FIRST_P] * 0.5 ** state[at(i) + LEVEL]
            rest -= p[i]
    least = 0.5 / p.size  # always left within the horizon; beyond it, eliminated arms are held to that
    shrink = (1.0 - least) / (1.0 - rest) if rest < 0.5 * least else 1.0
    rest = max(rest, least) if shrink < 1.0 else rest
    for i in range(p.size):
        if state[at(i) + ELIMINATED] != 0.0:
            p[i] *= shrink
        else:
            p[i] = rest / state[ACTIVE]


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    if state[ROUND] == 0.0:
        state[ARMS] = p.size
        state[ACTIVE] = p.size
        for i in range(p.size):
            state[at(i) + UCB] = math.inf
            state[at(i) + LCB] = -math.inf
            state[at(i) + WEIGHTED_UCB] = math.inf
    state[ROUND] += 1.0
    if state[HANDED_OVER] != 0.0:
        if state[ROUND] == state[HANDED_OVER] + 1.0:
            outstanding = 0  # none of its own yet
        hybrid_skipping.decide(state[at(p.size) : int(state[HEAD + pages.FIRST])], params, outstanding, p)
        return ADVERSARIAL
    state[MOST_OUTSTANDING] = max(state[MOST_OUTSTANDING], outstanding)
    _distribution(state, p)
    page = pages.take(state, HEAD)
    place = pages.begin(state, HEAD, page) + LEVELS
    for i in range(p.size):
        state[place + i] = state[at(i) + LEVEL] + 1.0 if state[at(i) + ELIMINATED] != 0.0 else 0.0
    return float(page)


@kernel
def patience(state: Vector, params: Vector) -> float:
    """Return inf before the hand-over, then the patience of the other learner, which counts its own decisions only."""
    if state[HANDED_OVER] == 0.0:
        return math.inf
    if state[ROUND] <= state[HANDED_OVER] + 1.0:
        return 1.0
    own = at(int(state[ARMS]))
    return hybrid_skipping.patience(state[own : int(state[HEAD + pages.FIRST])], params)


@kernel
def _looks_stochastic(state: Vector, params: Vector, arms: int) -> bool:
    """Update the bounds of active arms, eliminate arms, and return whether losses still look stochastic."""
    log_horizon = math.log(params[T])
    wide = math.sqrt(2.0 * arms * log_horizon / state[SEEN])
    best = math.inf
    fits = True
    for i in range(arms):
        here = at(i)
        if state[here + ELIMINATED] == 0.0:
            mean = state[here + LOSSES] / max(state[here + PLAYS], 1.0)
            width = _width(state[here + PLAYS], params[T])
            weighted = state[here + WEIGHTED] / state[SEEN]
            state[here + UCB] = min(state[here + UCB], mean + width)
            state[here + LCB] = max(state[here + LCB], mean - width)
            state[here + WEIGHTED_UCB] = min(state[here + WEIGHTED_UCB], weighted + min(1.0, wide))
            fits &= wide > 1.0 or state[here + LCB] - wide <= weighted <= state[here + UCB] + wide
        best = min(best, state[here + UCB], state[here + WEIGHTED_UCB])
    allowed = params[REGRET] * math.sqrt(arms * params[T]) * log_horizon
    allowed += 10.0 * state[MOST_OUTSTANDING] * math.log(arms)
    if not fits or state[PAID] - state[SEEN] * best > allowed:
        return False
    for i in range(arms):
        here = at(i)
        if state[here + ELIMINATED] != 0.0:
            continue
        mean = state[here + LOSSES] / max(state[here + PLAYS], 1.0)
        width = _width(state[here + PLAYS], params[T])
        if mean - params[WIDTHS] * width > best:
            if state[ACTIVE] == 1.0:
                return False
            state[ACTIVE] -= 1.0
            state[here + ELIMINATED] = 1.0
            state[here + FIRST_P] = 0.5 / arms + 0.5 * state[here + PLAYS] / params[T]
            state[here + HELD] = mean
            state[here + GAP] = 8.0 * width
            state[here + FIRST_LENGTH] = params[PHASE] / (state[here + FIRST_P] * state[here + GAP] ** 2)
            state[here + LENGTH] = state[here + FIRST_LENGTH]
    return True


@kernel
def _audit(state: Vector, params: Vector, arm: int, amount: float) -> bool:
    """Add a round, with its weighted loss, to the phase of an eliminated arm; return whether the phase ended."""
    here = at(arm)
    state[here + COUNT] += 1.0
    state[here + CHARGED] += amount
    if state[here + COUNT] * state[here + HELD] - state[here + CHARGED] >= (
        0.25 * state[here + GAP] * state[here + LENGTH]
    ):
        state[here + ERRORS] += 1.0
        state[here + LENGTH] = max(state[here + FIRST_LENGTH], 0.5 * state[here + LENGTH])
        state[here + LEVEL] = max(0.0, state[here + LEVEL] - 1.0)
        if state[here + ERRORS] >= 3.0 * math.log(params[T]):
            state[HANDED_OVER] = state[ROUND]
    elif state[here + COUNT] == max(1.0, math.floor(state[here + LENGTH])):
        state[here + LENGTH] *= 2.0
        state[here + LEVEL] += 1.0
    else:
        return False
    state[here + COUNT] = 0.0
    state[here + CHARGED] = 0.0
    return True


@kernel
def _join(state: Vector, params: Vector, page: int, arm: int) -> bool:
    """Add the round on a page to the phase of an arm; return whether the phase ended."""
    place = pages.begin(state, HEAD, page)
    state[place + LEVELS + arm] = 0.0
    state[place + WAITING] -= 1.0
    return _audit(state, params, arm, state[place + LOSS] if int(state[place + ARM]) == arm else 0.0)


@kernel
def _search_bank(state: Vector, params: Vector, arm: int) -> None:
    """Begin a phase: add the rounds in the bank that have its probability, until none is left."""
    page = int(state[BANK]) - 1
    while page >= 0 and state[HANDED_OVER] == 0.0:
        place = pages.begin(state, HEAD, page)
        ended = False
        if state[place + LEVELS + arm] == state[at(arm) + LEVEL] + 1.0:
            ended = _join(state, params, page, arm)
        page = int(state[BANK] if ended else state[place + pages.LINK]) - 1


@kernel
def _clear_bank(state: Vector) -> None:
    """Give back the pages of rounds that no audit waits for."""
    page = int(state[BANK]) - 1
    state[BANK] = 0.0
    state[BANK + 1] = 0.0
    while page >= 0:
        place = pages.begin(state, HEAD, page)
        following = int(state[place + pages.LINK]) - 1
        if state[place + WAITING] > 0.0:
            pages.append(state, HEAD, BANK, page)
        else:
            pages.give_back(state, HEAD, page)
        page = following


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    arms = int(state[ARMS])
    if mark == ADVERSARIAL:
        ftrl_steps.learn(state[at(arms) : int(state[HEAD + pages.FIRST])], params, arm, loss, propensity, mark)
        state[at(arm) + WEIGHTED] += loss / propensity
        return
    page = int(mark)
    if state[HANDED_OVER] != 0.0:
        pages.give_back(state, HEAD, page)
        return
    state[SEEN] += 1.0
    state[PAID] += loss
    state[at(arm) + WEIGHTED] += loss / propensity
    state[at(arm) + LOSSES] += loss
    state[at(arm) + PLAYS] += 1.0
    if not _looks_stochastic(state, params, arms):
        state[HANDED_OVER] = state[ROUND]
        pages.give_back(state, HEAD, page)
        return
    place = pages.begin(state, HEAD, page)
    state[place + ARM] = arm
    state[place + LOSS] = loss / propensity
    state[place + WAITING] = 0.0
    for i in range(arms):
        state[place + WAITING] += state[place + LEVELS + i] != 0.0
    searched = False
    for i in range(arms):
        matches = state[place + LEVELS + i] == state[at(i) + LEVEL] + 1.0 and state[HANDED_OVER] == 0.0
        if matches and _join(state, params, page, i):
            _search_bank(state, params, i)
            searched = True
    if state[place + WAITING] > 0.0:
        pages.append(state, HEAD, BANK, page)
    else:
        pages.give_back(state, HEAD, page)
    if searched:
        _clear_bank(state)


def size(n_arms: int) -> int:
    """Return how many numbers the state has, without its pages."""
    return SINGLES + FIELDS * n_arms + ftrl.size(n_arms)


def page_size(n_arms: int) -> int:
    return LEVELS + n_arms


LEARNER = Learner(
    name="sapo",
    summary="assumes stochastic losses and tests for them; once a test fails it plays hybrid_skipping",
    paper="Schlisselberg, Lancewicki, Auer & Mansour 2025, Delayed SAPO",
    size=size,
    losses_at=Layout(first=SINGLES + WEIGHTED, step=FIELDS),
    decide=decide,
    learn=learn,
    fixed_arms="its phases are counted from the first round, for the arms that it began with",
    patience=patience,
    keeps_skipped=True,
    fair_arrivals=True,
    pages=Pages(HEAD, page_size),
    parameters=(
        HORIZON,
        Parameter("elimination_widths", 9.0, 0.0, 1e6, "how many widths an arm must be worse"),
        Parameter("regret_constant", 272.0, 0.0, 1e9, "272 in the test of the regret"),
        Parameter("phase_constant", 1280.0, 1e-9, 1e9, "1280 in the length of a phase"),
    ),
)
