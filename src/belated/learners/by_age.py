"""Mean losses of the arms from outcomes that come late, corrected for what could not have come yet.

What has arrived is no fair sample where wins come sooner than losses, or where losses never come. This module estimates
by age, as actuaries do. Delays are put into buckets [lo, hi), two for each doubling. For arm i and bucket b,

    n = outcomes that came with a delay in the bucket,       loss = the sum of their losses,
    r = decisions of the arm that had the time for it: sum over decisions of clip((age - lo) / (hi - lo), 0, 1),
    a_i = sum over b of n / r,       l_i = sum over b of loss / r.

a_i estimates the share of decisions whose outcome comes within the ages seen so far, l_i the loss that they bring,
whatever delays depend on. The rest, 1 - a_i, is yet to come or will never come, and counts as c:

    aged_i = l_i + (1 - a_i) c.

c is the mean loss of what has come, moved to 1/2 as far as ripe outcomes are missing or only one kind of loss comes. A
decision is ripe when it is RIPE times as old as the mean delay of its arm.

Where what has come is a fair sample, its plain mean is less noisy. The estimate is

    mean_i = fair (mean of what has come) + (1 - fair) aged_i,

fair being the product of three factors from 0 to 1: delays explain little of the variance of losses; as many ripe
outcomes are missing of every arm, up to chance (a chi-square test); losses of more than one kind come. `weight` is the
number of outcomes that the mean is worth, missing ripe decisions included where they count.

Ages of decisions are kept in blocks of consecutive rounds. Blocks are merged as long as the result is at most a quarter
as long as it is old, so that memory is bounded: at most MOST_BLOCKS blocks however many rounds there were.
"""

import math

import numpy as np

from belated.core.kernels import Vector, kernel
from belated.learners.rearm import Floats, Integers, columns

BUCKETS = 48
MOST_BLOCKS = 96
SPAN = 0.25  # a block is at most this part of its age
RIPE = 3.0

# The numbers of a table: single ones, FIELDS for each arm, three for each bucket and arm, the blocks.
N_BLOCKS = 0
COUNTED = 1  # the last round in a block
ARRIVED = 2  # the share of ripe decisions whose outcome has come
DEPENDENCE = 3  # the share of the variance of losses within an arm that delays explain
SPREAD = 4  # how much larger the variance of 0-or-1 losses with these means is than the variance measured; at least 1
MEAN_LOSS = 5  # of all arms, by weight
LONGEST = 6  # the longest delay of what has come
WITHIN = 7  # the sum of squares of losses around the mean of their arm
SINGLES = 8

OPEN = 0  # decisions since the last block
DELAY = 1  # the mean delay of what comes
MEAN = 2
WEIGHT = 3
SHARE = 4  # a_i
LOSS = 5  # l_i
SQUARE = 6  # as l_i, of squared losses
CAME = 7  # outcomes
PASSED = 8  # decisions older than the bucket at hand
EXPOSED = 9  # r
TOTAL_LOSS = 10
TOTAL_SQUARE = 11
ROUGHNESS = 12  # the sum of n / r^2: a_i^2 over it is the number of outcomes that a_i and l_i are worth
FIELDS = 13


def size(n_arms: int) -> int:
    """Return how many numbers a table has."""
    return SINGLES + (FIELDS + 3 * BUCKETS) * n_arms + MOST_BLOCKS * (2 + n_arms)


def rearmed(table: Floats, n_arms: int, kept: Integers) -> Floats:
    """Return the table for other arms; of one that comes nothing has been counted."""
    first = SINGLES + (FIELDS + 3 * BUCKETS) * n_arms
    counts = columns(table[SINGLES:first].reshape(-1, n_arms), kept)
    blocks = table[first:].reshape(MOST_BLOCKS, 2 + n_arms)
    moved = np.concatenate([blocks[:, :2], columns(blocks[:, 2:], kept)], axis=1)
    return np.concatenate([table[:SINGLES], counts.ravel(), moved.ravel()])


@kernel(inline=True)
def at(arms: int, field: int) -> int:
    """Return where a field of arm 0 is; that of arm i is i further."""
    return SINGLES + field * arms


@kernel(inline=True)
def _bucket_at(arms: int, bucket: int) -> int:
    """Return where the outcomes of arm 0 in a bucket are: their number, at `arms` further their loss, then squares."""
    return SINGLES + FIELDS * arms + 3 * bucket * arms


@kernel(inline=True)
def _block_at(arms: int, block: int) -> int:
    """Return where a block is: its first round, its last, the decisions of each arm."""
    return SINGLES + (FIELDS + 3 * BUCKETS) * arms + block * (2 + arms)


@kernel(inline=True)
def edge(bucket: int) -> float:
    """Return the shortest delay of a bucket: 0, 1, 2, 3, 4, 5, 8, 11, 16, 22, 32, ..."""
    return float(bucket) if bucket < 4 else math.floor(2.0 ** (0.5 * bucket) + 1e-9)


@kernel(inline=True)
def bucket_of(delay: float) -> int:
    """Return the bucket that a delay, a whole number, belongs to."""
    if delay < 4.0:
        return int(delay)
    _, exponent = math.frexp(delay)
    half = math.ldexp(math.sqrt(0.5), exponent)  # the edge between the two buckets of this doubling, before rounding
    return min(2 * exponent - 2 + (delay + 1.0 > half), BUCKETS - 1)


@kernel(inline=True)
def count(table: Vector, arms: int, arm: int) -> None:
    """Count a decision."""
    table[at(arms, OPEN) + arm] += 1.0


@kernel(inline=True)
def add(table: Vector, arms: int, arm: int, loss: float, delay: float) -> None:
    """Count an outcome that came so many rounds after its decision."""
    table[LONGEST] = max(table[LONGEST], delay)
    table[at(arms, CAME) + arm] += 1.0
    table[at(arms, TOTAL_LOSS) + arm] += loss
    table[at(arms, TOTAL_SQUARE) + arm] += loss * loss
    place = _bucket_at(arms, bucket_of(delay)) + arm
    table[place] += 1.0
    table[place + arms] += loss
    table[place + 2 * arms] += loss * loss


@kernel
def _close_block(table: Vector, arms: int, now: float) -> None:
    """Put the decisions since the last block, up to the round before, into a new one; merge old ones."""
    blocks = int(table[N_BLOCKS])
    if blocks == MOST_BLOCKS:  # the two oldest: what was to come of them has mostly come
        _merge(table, arms, 0, 1)
        blocks -= 1
        for place in range(_block_at(arms, 1), _block_at(arms, blocks)):
            table[place] = table[place + 2 + arms]
    new = _block_at(arms, blocks)
    table[new] = table[COUNTED] + 1.0
    table[new + 1] = now - 1.0
    table[COUNTED] = now - 1.0
    for i in range(arms):
        table[new + 2 + i] = table[at(arms, OPEN) + i]
        table[at(arms, OPEN) + i] = 0.0
    kept = 0
    for block in range(1, blocks + 1):
        last = table[_block_at(arms, block) + 1]
        if last - table[_block_at(arms, kept)] + 1.0 <= SPAN * (now - last):
            _merge(table, arms, kept, block)
        else:
            kept += 1
            if kept != block:
                for j in range(2 + arms):
                    table[_block_at(arms, kept) + j] = table[_block_at(arms, block) + j]
    table[N_BLOCKS] = kept + 1.0


@kernel(inline=True)
def _merge(table: Vector, arms: int, older: int, newer: int) -> None:
    into = _block_at(arms, older)
    out = _block_at(arms, newer)
    table[into + 1] = table[out + 1]
    for i in range(arms):
        table[into + 2 + i] += table[out + 2 + i]


@kernel(inline=True)
def _exposures(age: float, lo: float, hi: float) -> float:
    """Return the sum of clip((y - lo) / (hi - lo), 0, 1) over whole y up to an age."""
    if age <= lo:
        return 0.0
    within = min(age, hi) - lo
    return within * (within + 1.0) / (2.0 * (hi - lo)) + max(0.0, age - hi)


@kernel
def _add_up(table: Vector, arms: int, now: float) -> None:
    """Write a_i, l_i and the like of every arm, and how far losses depend on delays."""
    share, loss, square = at(arms, SHARE), at(arms, LOSS), at(arms, SQUARE)
    passed, exposed = at(arms, PASSED), at(arms, EXPOSED)
    delays = at(arms, DELAY)
    for i in range(arms):
        table[share + i] = table[loss + i] = table[square + i] = table[passed + i] = 0.0
        table[delays + i] = table[at(arms, ROUGHNESS) + i] = 0.0
    blocks = int(table[N_BLOCKS])
    bucket = 0
    while bucket < BUCKETS - 1 and edge(bucket + 1) < now:
        bucket += 1
    full = 0  # blocks all of whose decisions are older than the bucket
    between = 0.0
    filled = 0.0
    while bucket >= 0:
        lo = edge(bucket)
        hi = edge(bucket + 1) if bucket < BUCKETS - 1 else 4.0 * lo
        while full < blocks and now - table[_block_at(arms, full) + 1] >= hi:
            for i in range(arms):
                table[passed + i] += table[_block_at(arms, full) + 2 + i]
            full += 1
        for i in range(arms):
            table[exposed + i] = table[passed + i]
        for block in range(full, blocks):
            place = _block_at(arms, block)
            youngest = now - table[place + 1]
            oldest = now - table[place]
            if oldest <= lo:
                break
            part = (_exposures(oldest, lo, hi) - _exposures(youngest - 1.0, lo, hi)) / (oldest - youngest + 1.0)
            for i in range(arms):
                table[exposed + i] += part * table[place + 2 + i]
        place = _bucket_at(arms, bucket)
        for i in range(arms):
            n = table[place + i]
            if n > 0.0:
                r = max(table[exposed + i], n)
                table[share + i] += n / r
                table[delays + i] += n / r * 0.5 * (lo + hi - 1.0)
                table[at(arms, ROUGHNESS) + i] += n / (r * r)
                table[loss + i] += table[place + arms + i] / r
                table[square + i] += table[place + 2 * arms + i] / r
                between += table[place + arms + i] ** 2 / n
                filled += 1.0
        bucket -= 1
    # The variance of losses within an arm, and the part of it that is between buckets, less what chance puts there.
    total = 0.0
    outcomes = 0.0
    for i in range(arms):
        n = table[at(arms, CAME) + i]
        if n > 0.0:
            table[delays + i] /= table[share + i]
            mean_part = table[at(arms, TOTAL_LOSS) + i] ** 2 / n
            between -= mean_part
            total += table[at(arms, TOTAL_SQUARE) + i] - mean_part
            filled -= 1.0
            outcomes += n
    table[WITHIN] = total
    table[DEPENDENCE] = 0.0
    if total > 0.0 and outcomes > filled:
        table[DEPENDENCE] = min(max((between - 2.0 * filled * total / outcomes) / total, 0.0), 1.0)


@kernel(inline=True)
def _decisions(table: Vector, arms: int, arm: int, now: float, age: float) -> float:
    """Return how many decisions of an arm are at least so old."""
    made = 0.0
    for block in range(int(table[N_BLOCKS])):
        place = _block_at(arms, block)
        if now - table[place + 1] < age:
            break
        made += table[place + 2 + arm]
    return made


@kernel(inline=True)
def _unevenness(table: Vector, arms: int, arrived: float) -> float:
    """Return 0 where as many ripe outcomes are missing of every arm, up to chance, and 1 where certainly not."""
    passed = at(arms, PASSED)
    chi = 0.0
    freedom = -1.0
    for i in range(arms):
        if table[passed + i] > 0.0:
            freedom += 1.0
            chi += table[passed + i] * (min(table[at(arms, SHARE) + i], 1.0) - arrived) ** 2
    spread = arrived * (1.0 - arrived)
    if freedom < 1.0 or spread <= 0.0:
        return 0.0
    z = (chi / spread - freedom) / math.sqrt(2.0 * freedom)
    return min(max((z - 3.0) / 3.0, 0.0), 1.0)


@kernel
def estimate(table: Vector, arms: int, now: float) -> None:
    """Write the mean loss of every arm and the weight behind it, as round `now` opens."""
    _close_block(table, arms, now)
    _add_up(table, arms, now)
    passed = at(arms, PASSED)
    ripe = came = losses = shares = 0.0
    for i in range(arms):
        n = table[at(arms, CAME) + i]
        share = table[at(arms, SHARE) + i]
        table[passed + i] = 0.0
        if n > 0.0:
            table[passed + i] = _decisions(table, arms, i, now, RIPE * table[at(arms, DELAY) + i])
        ripe += table[passed + i]
        came += table[passed + i] * min(share, 1.0)
        losses += n * table[at(arms, LOSS) + i]
        shares += n * share
    arrived = came / ripe if ripe > 0.0 else 1.0
    middle = losses / shares if shares > 0.0 else 0.5
    telling = arrived * table[WITHIN] / (1.0 + table[WITHIN])
    middle = telling * middle + (1.0 - telling) * 0.5
    table[ARRIVED] = arrived
    uneven = _unevenness(table, arms, arrived)
    fair = (1.0 - uneven) * max(1.0 - 4.0 * table[DEPENDENCE], 0.0) * table[WITHIN] / (1.0 + table[WITHIN])
    weights = total = 0.0
    widest = measured = 0.5
    for i in range(arms):
        n = table[at(arms, CAME) + i]
        share = table[at(arms, SHARE) + i]
        scale = max(share, 1.0)
        loss = table[at(arms, LOSS) + i] / scale
        rest = max(1.0 - share, 0.0)
        weight = second = 0.0
        mean = middle
        if n > 0.0:
            aged = share * share / table[at(arms, ROUGHNESS) + i] + rest * table[passed + i]
            weight = fair * n + (1.0 - fair) * aged
            mean = fair * table[at(arms, TOTAL_LOSS) + i] / n + (1.0 - fair) * (loss + rest * middle)
            second = fair * table[at(arms, TOTAL_SQUARE) + i] / n
            second += (1.0 - fair) * (table[at(arms, SQUARE) + i] / scale + rest * middle * middle)
        table[at(arms, MEAN) + i] = mean
        table[at(arms, WEIGHT) + i] = weight
        widest += weight * mean * (1.0 - mean)
        measured += weight * max(second - mean * mean, 0.0)
        weights += weight
        total += weight * mean
    table[SPREAD] = min(max(widest / max(measured, 1e-12), 1.0), 100.0)
    table[MEAN_LOSS] = total / weights if weights > 0.0 else 0.5
