"""Where a learner cannot be right: what a bandit and the service warn of, in sentences, and when they look.

Thresholds were chosen by trying: constant, geometric and Pareto delays and 5 % of outcomes lost at random give no
warning, outcomes that come only where they are good do (tests/live/test_warning.py).
"""

FIRST_LOOK = 256
FIRST_LATE = 64
TIMES_LONGEST = 3
LEAST_AGE = 100
LEAST_MISSING = 50
MOST_MISSING = 0.1
LEAST_LEARNED = 30
LEAST_REPORTED = 100
MOST_LATE = 0.5


def next_look(count: int) -> int:
    """Return the count at which to look again: the next power of two, FIRST_LOOK at least."""
    return max(FIRST_LOOK, 1 << count.bit_length())


def is_look(late: int) -> bool:
    """Return whether to look after so many late outcomes: at powers of two, from FIRST_LATE."""
    return late >= FIRST_LATE and late & (late - 1) == 0


def age_of_missing(longest_delay: int) -> int:
    """Return the age from which a decision without an outcome counts as missing one."""
    return max(TIMES_LONGEST * longest_delay, LEAST_AGE)


def about_missing(learner: str, longest_delay: int, old: int, missing: int, learned: int) -> str | None:
    """Return what to say where `missing` of the `old` decisions of that age have no outcome; None if nothing."""
    if learned < LEAST_LEARNED or missing < LEAST_MISSING or missing <= MOST_MISSING * old:
        return None
    return (
        f"{missing:,} of the {old:,} decisions that are at least {age_of_missing(longest_delay):,} rounds old have no"
        f" outcome, and the longest delay of an outcome was {longest_delay:,}. Learner {learner!r} takes the outcomes"
        " that arrive for a fair sample of all: if whether an outcome comes depends on what it is (only wins are"
        " reported, for example), its choices may be wrong. Use the default learner, or give a missing outcome a loss:"
        " in the service by a deadline with a default loss, in Python by observe() once a deadline has passed."
    )


def about_patience(learner: str, patience: float, reported: int, late: int) -> str | None:
    """Return what to say where `late` of the `reported` outcomes came after they were given up; None if nothing."""
    if reported < LEAST_REPORTED or late <= MOST_LATE * reported:
        return None
    return (
        f"{late:,} of the {reported:,} outcomes reported so far came after learner {learner!r} had skipped their"
        f" decisions, and it learned nothing from them. Its patience is {patience:,.0f} rounds now and may grow. Report"
        " outcomes sooner, or use a learner that learns from an outcome however late it comes, as the default does:"
        " 'guarded'."
    )
