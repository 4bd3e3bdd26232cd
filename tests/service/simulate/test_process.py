"""The process that simulates: it gives the numbers of `simulate`, and ends with whoever listens."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from belated import simulate
from belated.delays import ByLoss, Constant, Empirical, Geometric, Never, NoDelay
from belated.environments import Bernoulli
from belated.service.simulate import __main__, process
from belated.service.simulate.__main__ import NICENESS
from belated.service.simulate.findings import findings
from belated.service.simulate.plan import LEARNERS, RUNS, Arm, Plan
from belated.service.simulate.problem import Problem, problem_of
from support.serving import is_alive
from support.waiting import until

PLAN = Plan(400, 100.0, [Arm("blue", 0.2), Arm("green", 0.75)], 0.1, "deadline", 0.5)


def played(plan: Plan) -> list[dict[str, Any]]:
    async def all_of_it() -> list[dict[str, Any]]:
        async with aclosing(process.play(plan)) as found:
            return [msgspec.json.decode(each) async for each in found]

    return asyncio.run(all_of_it())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the process tells, which is played here: one that simulates is the last to run on a busy machine."""
    told: list[Any] = []
    monkeypatch.setattr(__main__, "_tell", told.append)
    return told


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Another program in place of the one that simulates."""

    def stand_in(script: str) -> None:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return stand_in


def test_it_gives_the_numbers_of_simulate(told: list[Any]) -> None:
    __main__._play(PLAN)
    assert [each.runs for each in told] == list(range(1, RUNS + 1))
    assert [each.is_over for each in told] == [False] * (RUNS - 1) + [True]
    last = told[-1]
    problem = problem_of(PLAN)
    expected = simulate(
        LEARNERS,
        problem.environment,
        problem.delays,
        rounds=400,
        replications=RUNS,
        checkpoints=last.decisions,
        known=True,
    )
    assert last.decisions[-1] == 400
    assert len(last.decisions) == 60
    for k, each in enumerate(last.learners):
        mean, low, high = expected.curve(LEARNERS[k])
        for found, right in ((each.lost, mean), (each.low, low), (each.high, high)):
            assert np.allclose(found, right, rtol=1e-4, atol=1e-9)
        assert each.known[-1] == (expected.known[k] <= 400).mean()
        after = expected.known_after(LEARNERS[k])
        assert each.known_after == (None if after == np.inf else after)


def test_guesses_become_laws_of_delay() -> None:
    alike = problem_of(msgspec.structs.replace(PLAN, bad="alike"))
    assert (alike.environment, alike.delays) == (Bernoulli([0.8, 0.25]), Geometric(10.0))
    assert (alike.best, alike.a_day, alike.notes) == ("green", 100.0, ())
    never = problem_of(msgspec.structs.replace(PLAN, bad="never", delay=0.0)).delays
    assert isinstance(never, ByLoss)
    assert isinstance(never.good, NoDelay)
    assert isinstance(never.bad, Never)


def test_good_outcomes_after_the_deadline_count_as_bad_ones() -> None:
    """A delay is at most 49 rounds then, with the probabilities of the geometric law below that; margin: 0.5 %."""
    found = problem_of(PLAN)
    in_time = 1.0 - (10 / 11) ** 50
    assert isinstance(found.environment, Bernoulli)
    assert np.allclose(found.environment.means, [1.0 - 0.2 * in_time, 1.0 - 0.75 * in_time], rtol=1e-12)
    assert isinstance(found.delays, ByLoss)
    assert found.delays.bad == Constant(50)
    good = found.delays.good
    assert isinstance(good, Empirical)
    assert good.delays.max() == 49
    wanted = (10 / 11) ** np.arange(50) / 11 / in_time
    assert np.abs(np.bincount(good.delays) / good.delays.size - wanted).max() < 0.005
    (note,) = found.notes
    assert note.startswith("1%")
    soon = problem_of(msgspec.structs.replace(PLAN, delay=0.0))
    assert soon.notes == ()
    assert soon.environment == Bernoulli([0.8, 0.25])
    assert isinstance(soon.delays, ByLoss)
    assert isinstance(soon.delays.good, NoDelay)


def test_sentences_say_what_is_lost_and_when_one_knows() -> None:
    problem = Problem(Bernoulli([0.8, 0.2]), Geometric(10.0), 100.0, "green", "of value", 50.0, ("A note.",))
    simulation = simulate(["guarded", "uniform"], *problem[:2], rounds=1000, replications=3, checkpoints=10, known=True)
    found = findings(problem, simulation, True)
    lost, when = found.sentences
    mean, even = (50.0 * float(simulation.final(name).mean) for name in ("guarded", "uniform"))
    assert found.learners[0].lost[-1] == pytest.approx(mean, rel=1e-4)
    names = ["1,000", "10 days", "guarded", f"{mean:,.0f} of value", "green", f"{even:,.0f}"]
    assert [name for name in names if name not in lost] == []
    after = simulation.known_after("guarded")
    assert f"{after:,.0f}"[:1] in when
    first, note = found.notes
    assert first == "A note."
    assert f"3 runs of {RUNS}" in note
    equal = Bernoulli([0.5, 0.5])
    simulation = simulate(["guarded", "uniform"], equal, rounds=100, replications=3, checkpoints=10, known=True)
    found = findings(problem._replace(environment=equal, delays=None), simulation, False)
    assert "100 decisions" in found.sentences[1]
    assert found.notes == ["A note."]


def test_one_decision_is_enough(told: list[Any]) -> None:
    __main__._play(msgspec.structs.replace(PLAN, decisions=1))
    assert told[-1].is_over


def test_what_is_told_comes_line_by_line(stand_in: Callable[[str], None]) -> None:
    """The plan goes in as a line, and the program's standard input stays open; it is not told the admin's key."""
    stand_in('read plan; echo "$plan"; printf \'{"words": "%s", "key": "%s"}\\n\' "$*" "$BELATED_ADMIN_KEY"')
    plan, given = played(PLAN)
    assert msgspec.convert(plan, Plan) == PLAN
    assert given == {"words": "-P -m belated.service.simulate", "key": ""}


def test_a_process_that_fails_is_told_and_logged(
    stand_in: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    stand_in("exit 7")
    assert [set(each) for each in played(PLAN)] == [{"problem"}]
    (record,) = caplog.records
    assert (record.name, record.levelname, record.args) == ("belated.service", "ERROR", (7,))


def test_a_process_that_cannot_be_started_is_told_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert [set(each) for each in played(PLAN)] == [{"problem"}]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("belated.service", "ERROR")
    assert "/nowhere/python" in record.getMessage()


def test_it_ends_when_nobody_listens_any_more(stand_in: Callable[[str], None]) -> None:
    stand_in('read plan; echo "$$"; exec sleep 100000')

    async def listen_once() -> int:
        async with aclosing(process.play(PLAN)) as found:
            child = int(await anext(found))
            assert is_alive(child)
            return child

    assert not is_alive(asyncio.run(listen_once()))


def test_after_some_time_no_further_run_is_begun(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "MOST_SECONDS", 0.0)
    __main__._play(msgspec.structs.replace(PLAN, bad="alike"))
    (only,) = told
    assert (only.runs, only.is_over) == (1, True)
    assert f"1 run of {RUNS}" in only.notes[0]


@pytest.mark.timeout(1200)  # the process is the last to run on a busy machine
def test_the_process_itself() -> None:
    """It gives way to others, and ends when its standard input does."""
    with subprocess.Popen(
        [sys.executable, "-m", "belated.service.simulate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(msgspec.json.encode(msgspec.structs.replace(PLAN, decisions=200_000)) + b"\n")
        child.stdin.flush()
        until(lambda: os.getpriority(os.PRIO_PROCESS, child.pid) == NICENESS, 1000)  # deciding goes first
        child.stdin.close()  # as the system does when the service is no more
        assert child.wait() == 0
        assert b'"is_over":true' not in child.stdout.read()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_cannot_be_simulated_is_told(tmp_path: Path) -> None:
    (told,) = played(Plan(10, None, experiment="nobody", store=f"sqlite:///{tmp_path}/no.db"))
    assert "no.db" in told["problem"]
