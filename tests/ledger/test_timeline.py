"""What an experiment did over time: nothing is lost when stretches are put together, and replay gives the same."""

import random
from itertools import pairwise

from belated.ledger.events import SECOND
from belated.ledger.timeline import ARMS, HALF_HOUR, HALF_HOURS, MOST, OTHERS, Timeline

BEGIN = 1_700_000_000 * SECOND


def busy(seed: int, steps: int) -> tuple[Timeline, int, list[tuple[int, int, float]]]:
    """A timeline, the last time, and its outcomes: (time, arm, loss)."""
    chance, timeline, at = random.Random(seed), Timeline(), BEGIN
    outcomes = []
    for k in range(steps):
        at += chance.randrange(0, 3 * SECOND if k < steps // 2 else 300 * SECOND)
        timeline.decided(at, chance.randrange(30), k % 50)
        if chance.random() < 0.5:
            outcomes.append((at, chance.randrange(30), chance.choice([0.0, 0.25, 1.0])))
            timeline.came(*outcomes[-1], k % 50)
            timeline.waited(outcomes[-1][1], outcomes[-1][2], 7 * SECOND)
    return timeline, at, outcomes


def test_everything_is_counted_once_in_stretches_of_equal_length() -> None:
    timeline, last, outcomes = busy(1, 4000)
    stretches = list(timeline)
    assert 2 < len(stretches) <= MOST
    width = int(timeline.width * SECOND)
    assert {later.begin - each.begin for each, later in pairwise(stretches)} == {width}
    assert stretches[0].begin <= BEGIN + 3 * SECOND
    assert stretches[-1].begin <= last < stretches[-1].begin + width
    assert sum(sum(each.decisions.values()) for each in stretches) == 4000
    assert sum(sum(each.outcomes.values()) for each in stretches) == len(outcomes)
    for arm in range(ARMS):
        wanted = sum(loss for _, other, loss in outcomes if other == arm)
        assert abs(sum(each.losses.get(arm, 0.0) for each in stretches) - wanted) < 1e-9
    others = sum(each.outcomes.get(OTHERS, 0) for each in stretches)
    assert others == sum(arm >= ARMS for _, arm, _ in outcomes)
    for each in stretches:
        inside = sum(each.begin <= at < each.begin + width for at, _, _ in outcomes)
        assert inside == sum(each.outcomes.values())
    assert stretches[-1].outstanding == 3999 % 50


def test_delays_are_counted_by_arm_and_by_how_good_outcomes_are() -> None:
    timeline, _, outcomes = busy(2, 500)
    good = sum(sum(each.counts) for (_, is_good), each in timeline.delays.items() if is_good)
    assert good == sum(loss < 0.5 for _, _, loss in outcomes)
    assert sum(sum(each.counts) for each in timeline.delays.values()) == len(outcomes)
    assert {arm for arm, _ in timeline.delays} <= {OTHERS, *range(ARMS)}


def test_it_goes_on_from_what_was_kept() -> None:
    whole, _, _ = busy(3, 1000)
    again = Timeline.from_lists(whole.to_lists())
    assert again.to_lists() == whole.to_lists()
    for timeline in (whole, again):
        timeline.decided(BEGIN + 10**6 * SECOND, 2, 5)
    assert list(again) == list(whole)


def test_a_clock_that_goes_back_stays_in_the_last_stretch() -> None:
    timeline = Timeline()
    timeline.decided(BEGIN + 100 * SECOND, 0, 1)
    timeline.decided(BEGIN, 1, 2)
    (only,) = timeline
    assert only.decisions == {0: 1, 1: 1}
    timeline.decided(BEGIN + 103 * SECOND, 0, 3)
    assert [each.outstanding for each in timeline] == [2, 2, 2, 3]


def test_stretches_become_longer_when_there_would_be_one_too_many() -> None:
    timeline = Timeline()
    for second in range(MOST):
        timeline.decided(BEGIN + second * SECOND, 0, second)
    assert [each.outstanding for each in timeline] == list(range(MOST))
    timeline.decided(BEGIN + MOST * SECOND, 0, 7)
    assert timeline.width == 2.0
    assert [each.outstanding for each in timeline] == [*range(1, MOST, 2), 7]  # at the end of each
    assert [each.decisions[0] for each in timeline] == [2] * (MOST // 2) + [1]


def test_the_last_day_is_counted_in_half_hours() -> None:
    timeline, hour = Timeline(), 3600 * SECOND
    assert (timeline.decided_at, timeline.half_hours) == (0, {})
    for k in range(100):
        timeline.decided(BEGIN + k * hour, 0, 0)
        timeline.came(BEGIN + k * hour + hour // 2, 0, 1.0, 0)
    assert timeline.decided_at == BEGIN + 99 * hour
    last = (BEGIN + 99 * hour + hour // 2) // HALF_HOUR
    assert min(timeline.half_hours) == last - HALF_HOURS + 1
    assert timeline.half_hours[last] == [0, 1]
    assert timeline.half_hours[last - 1] == [1, 0]
    assert [sum(column) for column in zip(*timeline.half_hours.values(), strict=True)] == [24, 25]
    timeline.decided(BEGIN, 0, 0)  # a clock that went back by days
    assert timeline.decided_at == BEGIN + 99 * hour
    assert len(timeline.half_hours) == HALF_HOURS
    again = Timeline.from_lists(timeline.to_lists())
    assert (again.decided_at, again.half_hours) == (timeline.decided_at, timeline.half_hours)
