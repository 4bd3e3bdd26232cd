"""What learners must know: asked for live, passed on in simulations, to those that declare it and to nobody else."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import AlreadyObserved, Bandit, Receipt, learners, simulate
from belated.cli.main import main
from belated.core import pages, rounds
from belated.delays import NEVER, Constant, Delays, Dropout, Outlier, Pareto, Recorded
from belated.league.comparison import ComparisonPlan, compare
from belated.learners.learner import KNOWN, Learner, Parameter
from belated.report.figures import draw_comparison
from belated.report.tables import catalogue_rows, comparison_table, learner_details
from belated.simulation import oracle
from belated.simulation.run import Chunk, LearnerRun, new_chunk
from belated.simulation.simulation import replay
from support.play_live import informed
from support.refusals import refused

NEEDS = {
    "damped": {"longest_delay"},
    "exp3_fixed": {"horizon", "longest_delay"},
    "exp3_delayed": {"delay"},
    "exp3_dropping": {"horizon", "total_delay"},
    "elimination": {"horizon"},
    "patient": {"horizon", "tail_index"},
    "sapo": {"horizon"},
}


@pytest.mark.parametrize("name", sorted(learners.catalogue))
def test_needs_are_those_of_the_papers(name: str) -> None:
    assert set(learners.find(name).needs) == NEEDS.get(name, set())
    assert set(learners.tune(name).informed) == NEEDS.get(name, set())


@pytest.mark.parametrize("name", sorted(set(NEEDS) - {"exp3_delayed"}))
def test_a_bandit_refuses_and_names_what_is_missing(name: str) -> None:
    for need in sorted(NEEDS[name]):
        told: dict[str, Any] = dict(informed(name).values)
        del told[need]
        with refused(need, repr(name), need):
            Bandit(3, name, **told)
        with refused(need, repr(name), need):
            Bandit(3, name, **{**told, need: KNOWN})
    assert Bandit(3, informed(name)).decide().round == 1


def test_the_delay_of_a_decision() -> None:
    bandit = Bandit(3, "exp3_delayed", seed=1)
    for delay in (-1, math.nan, "7", 10**400, np.complex128(1), True):
        with refused(None, "delay", repr(delay)):
            bandit.decide(delay=delay)  # type: ignore[arg-type]
    with refused(None, "'exp3_delayed'", "delay"):
        bandit.decide()
    assert bandit.rounds == 0
    assert bandit.decide(delay=3).round == 1
    assert bandit.decide(delay=math.inf).round == 2
    plain = Bandit(3, "robust")
    with refused(None, "'robust'", "delay", 3):
        plain.decide(delay=3)
    assert plain.rounds == 0


def test_optional_knowledge_comes_whole_or_not_at_all() -> None:
    with refused("total_delay", "'exp3_delayed'", "horizon"):
        learners.tune("exp3_delayed:horizon=100")
    with refused(None, "threshold", 3.0, error=ValueError):
        learners.tune("exp3_delayed:threshold=3")
    assert learners.tune("exp3_ix").informed == learners.tune("exp3_ix:horizon=unknown").informed == ()
    assert learners.tune("exp3_ix:horizon=100").informed == ("horizon",)
    assert learners.tune("exp3_ix:horizon=known").missing == ("horizon",)
    with refused("horizon", "'exp3_ix'"):
        Bandit(3, "exp3_ix:horizon=known")
    with refused("horizon", "'soon'"):
        learners.tune("exp3_ix:horizon=soon")
    with refused("delay_constant", "'known'"):
        learners.tune("robust:delay_constant=known")


def test_words_for_choices() -> None:
    assert learners.tune("bold:base=exp3").label == "bold:base=exp3"
    assert learners.tune("bold", base="exp3").params.tolist() == [1.0]
    with refused("base", "'exp33'", "tsallis"):
        learners.tune("bold:base=exp33")
    with refused("base", "'1'"):
        learners.tune("bold:base=1")


def test_the_truth() -> None:
    """An outcome that would come after the last round takes until then."""
    everything = {"horizon", "longest_delay", "total_delay", "tail_index"}
    delays = np.array([NEVER, 3, 0, 9, 1, 0])
    told = oracle.tell(everything, Pareto(shape=0.7), 6, [(1, delays[:2]), (3, delays[2:])])
    assert told == {"horizon": 6.0, "longest_delay": 5.0, "total_delay": 5.0 + 3 + 0 + 2 + 1 + 0, "tail_index": 0.7}
    assert oracle.tell(set(), Pareto(), 6, iter([])) == {}
    assert oracle.tell({"horizon"}, Pareto(), 6, iter([])) == {"horizon": 6.0}


@pytest.mark.parametrize(
    ("law", "index"),
    [
        (Constant(3), math.inf),
        (Pareto(shape=0.3), 0.3),
        (Outlier(others=Pareto(shape=2.0)), 2.0),
        (Dropout(0.1), 0.0),
        (Recorded([1, 2]), None),
    ],
)
def test_tails(law: Delays, index: float | None) -> None:
    assert law.tail_index == index


def test_nobody_knows_the_tail_of_a_list() -> None:
    with refused(None, "'patient'", "tail_index", "Recorded(5 delays)"):
        simulate("patient", "stochastic:arms=3", Recorded([1, 2, 3, 4, 5]), rounds=5, replications=1)
    with refused(None, "'patient'", "tail_index"):
        replay("patient", np.zeros((2, 2)), [1, 1], [0.1, 0.1])
    replay("patient:tail_index=0.5", np.zeros((2, 2)), [1, 1], [0.1, 0.1])


def test_the_truth_is_that_of_the_replication() -> None:
    """Two replications of random delays have two longest delays; each learner is told its own."""
    seen: list[float] = []

    class Spy(LearnerRun):
        def __init__(self, tuned: Any, *rest: Any) -> None:
            super().__init__(tuned, *rest)
            self.delays: list[int] = []
            if tuned.learner.name == "damped":
                seen.append(float(self.run.params[0]))

        def play(self, chunk: Chunk) -> Any:
            left = chunk.rounds.horizon - np.arange(chunk.first, chunk.first + 500)
            self.delays += np.minimum(chunk.rounds.delays[:, 0], left).tolist()
            if self.run.params.size == 3 and len(self.delays) == 1500:
                assert max(self.delays) == self.run.params[0]
            return super().play(chunk)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belated.simulation.replication.LearnerRun", Spy)
        patch.setattr("belated.simulation.replication.CHUNK_ROUNDS", 500)
        simulate(["robust", "damped"], "stochastic:arms=3", "pareto", rounds=1500, replications=4, threads=1)
    assert len(set(seen)) == 4


def test_only_those_who_ask_are_told() -> None:
    """A learner with a place for the delay gets it; others keep their state to themselves."""
    losses, waits = np.full((50, 2), 0.5), [7] * 50
    chunk = new_chunk(1, np.full(50, 0.3), np.array(waits), losses, 50, losses)
    for name in ("exp3_delayed", "exp3_adaptive"):
        run = LearnerRun(learners.tune(name), 2, 50, False, {})
        run.play(chunk)
        place = learners.find("exp3_delayed").delay_at
        assert place is not None
        assert run.state[place] == (7.0 if name == "exp3_delayed" else 0.0)


def test_tables_and_figures_mark_the_informed(tmp_path: Path) -> None:
    plan = ComparisonPlan(
        learners=("robust", "damped", "exp3_delayed"),
        environments=("stochastic:arms=3",),
        delays=("constant:delay=2",),
        rounds=200,
        replications=2,
    )
    result = compare(plan)
    assert result.cells[0].informed == ((), ("longest_delay",), ("delay",))
    table = comparison_table(result)
    assert "damped†" in table
    assert "robust†" not in table
    assert "damped (longest_delay), exp3_delayed (delay)" in table
    figure = draw_comparison(result)
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown[:3] == ["robust", "damped†", "exp3_delayed†"]
    assert "damped (longest_delay)" in figure.get_supxlabel()
    words = ["compare", "--learners", "damped", "--rounds", "50", "--replications", "2", "--delays", "none"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert "damped,longest_delay,0," in (tmp_path / "final.csv").read_text()


def test_the_catalogue_is_told_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learners", "exp3_delayed"]) == 0
    out = capsys.readouterr().out
    for words in ("delay", "threshold", "Thune"):
        assert words in out
    assert main(["learners", "robst"]) == 2
    assert "'robust'" in capsys.readouterr().err
    for learner in learners.catalogue.values():
        assert learner.summary in learner_details(learner)
    stranger = Learner("stranger", "unheard of", "none", size=abs, decide=abs, learn=abs)
    rows = catalogue_rows([stranger, learners.find("ucb"), learners.find("thompson")])
    assert (rows[0][0], rows[0][2:5]) == ("stranger", ["–"] * 3)
    assert rows[0][5] == rows[2][5] != rows[1][5]  # whose propensities are 1
    assert main(["learners", "--json"]) == 0
    listed = {each["name"]: each["deterministic"] for each in json.loads(capsys.readouterr().out)}
    assert listed == {name: learner.deterministic for name, learner in learners.catalogue.items()}


def test_what_was_skipped_is_still_used_by_a_learner_that_keeps_it() -> None:
    bandit = Bandit(2, "hybrid_skipping", seed=0)
    decisions = [bandit.decide() for _ in range(60)]
    assert 0 < bandit.skipped < 60
    assert bandit.outstanding == 60 - bandit.skipped
    before = bandit.loss_estimates.sum()
    again = Bandit.from_bytes(bandit.to_bytes())
    for each in (bandit, again):
        counted = each.outstanding
        assert each.observe(decisions[0], loss=1.0) is Receipt.USED
        assert each.outstanding == counted  # it was not counted any more
        assert each.loss_estimates.sum() == before + 1.0 / decisions[0].propensity
        with pytest.raises(AlreadyObserved):
            each.observe(decisions[0], loss=1.0)
        assert each.observe(decisions[-1], loss=0.0) is Receipt.USED
        assert each.outstanding == counted - 1
    assert bandit.decide() == again.decide()


def test_kept_decisions_leave_memory_when_their_outcomes_come() -> None:
    """Half way through, what is kept is what was skipped and will come; what never comes is forgotten when skipped."""
    run = LearnerRun(learners.tune("hybrid_skipping"), 3, 10_000, True, {})
    rng = np.random.default_rng(0)
    losses = rng.random((10_000, 3))
    waits = rng.choice([0, 6000, NEVER], 10_000)
    run.play(new_chunk(1, rng.random(10_000), waits, losses, 20_000, losses))
    skipped = run.finished_trace().skipped
    skipped = skipped[skipped > 0]
    kept = [s for s in skipped if waits[s - 1] == 6000 and s + 6000 > 10_000]
    assert 300 < len(kept) < skipped.size - 1000
    assert (run.run.memory["older"] == rounds.KEPT).sum() == len(kept)
    assert run.run.memory.size < 3 * (len(kept) + run.count("most_outstanding"))


@pytest.mark.parametrize("name", ["bold", "tsallis_rv:baseline=1e9"])  # which has every arm below its baseline
def test_pages_are_as_many_as_decisions_are_outstanding(name: str) -> None:
    """One more than the most outstanding at once, however many rounds there are; for bold these are the copies."""
    rng = np.random.default_rng(1)
    waits = rng.integers(0, 40, 5000)
    losses = rng.random((5000, 3))
    run = LearnerRun(learners.tune(name), 3, 5000, False, {})
    run.play(new_chunk(1, rng.random(5000), waits, losses, 5000, losses))
    head = learners.find(name.partition(":")[0]).pages
    assert head is not None
    assert run.state[head.at + pages.MADE] == run.count("most_outstanding") + 1
    assert run.state[head.at + pages.USED] == run.count("outstanding")
    assert run.learner.page_count(run.state) < 4 * run.count("most_outstanding")


def test_a_parameter_tells_about_itself() -> None:
    needed = Parameter("horizon", KNOWN, 1.0, 9.0, "T")
    assert needed.is_knowledge
    assert needed.check("known") == KNOWN
    assert needed.shown(KNOWN) == "known"
    assert Parameter("x", 1.5, 0.0, 2.0, "a number").shown(1.5) == "1.5"
    with refused(None, "robust", error=ValueError):
        learners.find("robust").with_more_pages(np.zeros(3))
