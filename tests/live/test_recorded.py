"""A bandit whose decisions are on record elsewhere does what a `Bandit` does, bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from belated import Bandit, Limits, Receipt, learners
from belated.errors import SnapshotError
from belated.live import outstanding
from belated.live.outstanding import Recorded
from belated.live.recorded import Made, RecordedBandit
from support.play_live import TOLD, VARIANTS
from support.protocol_model import learned_the_same
from support.refusals import refused
from support.sampling import sampled

SPECS = [
    words
    for words in (*learners.catalogue, *VARIANTS, "robust:delay_constant=0.01", "balanced:kappa=1")
    if "delay" not in learners.find(words.partition(":")[0]).needs
]
FLOORED = [f"{words}:share_floor=0.05" for words in SPECS if ":" not in words]


class Both:
    """A `Bandit` and a `RecordedBandit` that live through the same, and the record of the latter."""

    def __init__(self, words: str, arms: int = 3) -> None:
        told: dict[str, Any] = dict(TOLD.get(words.partition(":")[0], {}))
        self.bandit = Bandit(arms, words, seed=1, **told)
        self.bandit.warns = False
        self.recorded = RecordedBandit(arms, words, **told)
        self.recorded.open.find = self.find
        self.made: dict[int, Made] = {}
        self.open: set[int] = set()

    def find(self, place: int, most: int) -> Sequence[Recorded]:
        rounds = range(place + 1, min(place + most, len(self.made)) + 1)
        return [Recorded(k, k, self.made[k].mark or 0.0, k in self.open) for k in rounds]

    def decide(self, draw: float) -> None:
        made = self.recorded.decide(self.bandit.rounds + 1, draw=draw)
        assert made[:3] == tuple(self.bandit.decide(draw=draw))
        self.made[made.round] = made
        self.open.add(made.round)
        self.recorded.open.recorded()

    def observe(self, number: int, loss: float) -> None:
        receipt = self.recorded.receipt(number, self.made[number].arm)
        assert self.recorded.observe(self.made[number], loss)
        assert self.bandit.observe(number, loss=loss) is receipt
        self.open.remove(number)

    def change(self, rng: np.random.Generator) -> None:
        """Change the arms or the limits, of both; whatever one refuses the other refuses."""
        roster, limits = self.recorded.roster, self.recorded.limits
        kind = int(rng.integers(4))
        absent = [arm for arm in range(len(roster.entered)) if not roster.has(arm)]
        if kind == 0 or (kind == 1 and not absent):
            self.bandit.add_arm(len(roster.entered))
            roster = roster.add(self.recorded.rounds)
        elif kind == 1:
            arm = int(rng.choice(absent))
            self.bandit.restore_arm(arm)
            roster = roster.restore(arm, self.recorded.rounds)
        elif kind == 2 and len(roster.present) > 2:
            arm = int(rng.choice(roster.present))
            self.bandit.retire_arm(arm)
            roster = roster.retire(arm)
        else:
            low, high, fixed = (int(arm) for arm in rng.permutation(len(roster.entered))[:3])
            limits = Limits({low: (0.05, 1.0), high: (0.0, 0.9), fixed: 0.1}, holdout=float(rng.integers(2)) / 20)
            self.bandit.set_limits(limits)
        self.recorded.change(roster, limits)

    def restart(self) -> None:
        self.recorded = RecordedBandit.from_bytes(self.recorded.to_bytes())
        self.recorded.open.find = self.find


@pytest.mark.parametrize("words", [*SPECS, *sampled(FLOORED, 6)])
def test_it_decides_and_learns_as_a_bandit_does(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes in any order, a third of them never, with restarts, and a window of the oldest that is often empty."""
    monkeypatch.setattr(outstanding, "WINDOW", 6)
    monkeypatch.setattr(outstanding, "LOOKED_AT", 4)
    both, rng = Both(words), np.random.default_rng(2)
    for k in range(300):
        both.decide(float(rng.random()))
        while both.open and rng.random() < 0.4:
            both.observe(int(rng.choice(sorted(both.open))), float(rng.random()))
        if k % 50 == 0:
            assert learned_the_same(both.recorded, both.bandit)
        if k % 97 == 0:
            both.restart()
    assert learned_the_same(both.recorded, both.bandit)
    assert both.recorded.outstanding == both.bandit.outstanding
    assert both.recorded.patience == both.bandit.patience
    assert np.array_equal(both.recorded.loss_estimates, both.bandit.loss_estimates)


@pytest.mark.parametrize("words", ["guarded", "robust", "balanced", "sapo", "hybrid_skipping"])
def test_what_is_on_record_is_done_again(words: str) -> None:
    both, rng = Both(words), np.random.default_rng(3)
    again = RecordedBandit(3, words, **TOLD.get(words, {}))
    again.open.find = both.find
    for _ in range(300):
        draw = float(rng.random())
        both.decide(draw)
        made = both.made[len(both.made)]
        assert again.redo(made.round, made, draw=draw) == made.propensity
        if len(both.open) > 20:
            number = int(rng.choice(sorted(both.open)))
            receipt = both.recorded.receipt(number, both.made[number].arm)
            both.observe(number, 0.5)
            assert again.observe(both.made[number], 0.5, receipt)
    assert again.to_bytes() == both.recorded.to_bytes()


@pytest.mark.parametrize("words", ["robust", "balanced"])
def test_a_record_without_marks_is_replayed_with_its_own(words: str) -> None:
    """As earlier versions kept it: no marks with decisions, no propensities with outcomes."""
    both, rng = Both(words), np.random.default_rng(4)
    old = RecordedBandit(3, words)
    for _ in range(200):
        draw = float(rng.random())
        both.decide(draw)
        made = both.made[len(both.made)]
        old.redo(made.round, made._replace(mark=None, cumulative=None), draw=draw)
        if rng.random() < 0.5:
            number = int(rng.choice(sorted(both.open)))
            both.observe(number, 0.25)
            bare = both.made[number]._replace(propensity=None, mark=None, cumulative=None)
            old.observe(bare, 0.25)
            if rng.random() < 0.1:
                old = RecordedBandit.from_bytes(old.to_bytes())
                old.open.find = lambda place, most: [
                    Recorded(k, k, 0.0, k in both.open) for k in range(place + 1, len(both.made) + 1)
                ][:most]
    assert learned_the_same(old, both.bandit)


def test_what_the_record_says_became_of_an_outcome_stays() -> None:
    """Another processor may have been more patient, or less, by a hair."""
    skips, waits = RecordedBandit(2, "robust"), RecordedBandit(2, "robust")
    made = skips.decide(1, draw=0.3)
    waits.decide(1, draw=0.3)
    for place in range(2, 60):
        for bandit in (skips, waits):
            bandit.decide(place, draw=0.3)
    assert skips.receipt(1, made.arm) is Receipt.SKIPPED
    assert skips.receipt(59, made.arm) is Receipt.USED
    before = skips.outstanding, skips.skipped
    assert skips.observe(made, 0.5, Receipt.USED) is False
    assert (skips.outstanding, skips.skipped) == before
    assert not np.array_equal(skips.loss_estimates, waits.loss_estimates)
    newest = Made(59, 0, 0.5, made.mark, made.cumulative)
    assert skips.observe(newest, 0.5, Receipt.SKIPPED) is False
    assert (skips.outstanding, skips.skipped) == (before[0] - 1, before[1] + 1)


def test_nonsense_is_refused() -> None:
    bandit = RecordedBandit(2, "robust")
    made = bandit.decide(1, draw=0.3)
    for loss in (-0.1, 1.1, float("nan")):
        with refused(None, loss, error=ValueError):
            bandit.observe(made, loss)
    with refused(None, 1, error=ValueError):
        bandit.observe(made._replace(mark=None), 0.5)
    for wrong, named in (
        (made._replace(round=3), ["round 3", "round 1"]),
        (made._replace(round=2, arm=2), ["round 2", "arm 2"]),
        (made._replace(round=2, propensity=None), ["round 2", "propensity"]),
    ):
        with refused(None, *named, error=ValueError):
            bandit.redo(2, wrong, draw=0.5)
    with pytest.raises(SnapshotError):
        RecordedBandit.from_bytes(Bandit(2, "robust").to_bytes())


REARMED = [words for words in SPECS if learners.find(words.partition(":")[0]).rearm is not None]


@pytest.mark.parametrize("words", REARMED)
@pytest.mark.parametrize("rounds", [450, pytest.param(1500, marks=pytest.mark.slow)])
def test_arms_and_limits_change_as_in_a_bandit(words: str, rounds: int) -> None:
    """Arms come, go and come back, and limits change, while outcomes are outstanding: the two stay the same."""
    both, rng = Both(words, 3), np.random.default_rng(8)
    for k in range(rounds):
        both.decide(float(rng.random()))
        while len(both.open) > 1 and rng.random() < 0.52:
            number = int(rng.choice(sorted(both.open)))
            both.observe(number, float(rng.integers(2)))
        if k % (rounds // 25) == 10:
            both.change(rng)
        if k % (rounds // 8) == 40:
            both.restart()
    roster = both.recorded.roster
    assert len(roster.entered) > 6
    assert len(roster.present) < len(roster.entered)
    assert learned_the_same(both.recorded, both.bandit)
