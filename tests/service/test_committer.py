"""Group commit, on a processor under the test's control: what is committed together, in which order, and who hears."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from belated.ledger.base import LedgerUnavailable
from belated.ledger.commands import Command, Read
from belated.service.committer import Committer
from belated.service.counters import WorkerCounters, new_counters
from belated.service.errors import ApiError
from belated.service.limits import Limits
from support.refusals import refused
from support.waiting import until_async


class Asked(Read, frozen=True):
    """A command that can be told from others."""

    number: int = 0


class Processor:
    """Answers a command with (name, number); holds every commit until it is let go."""

    def __init__(
        self, writers: int = 1, refuses: Callable[[Sequence[Command]], Exception | None] | None = None
    ) -> None:
        self.ledger = SimpleNamespace(writers=writers, store="test:///")
        self.batches: list[list[tuple[str, int]]] = []
        self.go = threading.Event()
        self._running: set[str] = set()
        self._refuses = refuses or (lambda commands: None)

    def is_loaded(self, name: str) -> bool:
        return True

    def run(self, commands: Sequence[Any], wait: bool = True) -> list[Any]:
        batch = [(command.name, command.number) for command in commands]
        names = {name for name, _ in batch}
        assert not names & self._running, "an experiment is committed by two at a time"
        self._running |= names
        self.batches.append(batch)
        assert self.go.wait(60.0)
        self._running -= names
        if error := self._refuses(commands):
            raise error
        return list(batch)


class Bench:
    """A committer, what it counts, and what went wrong in its loop unseen."""

    def __init__(self, processor: Processor, **limits: int) -> None:
        self.processor = processor
        self.counters = WorkerCounters(new_counters(1), 0)
        self.committer = Committer(processor, Limits(**limits), self.counters)  # type: ignore[arg-type]
        self.unseen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.unseen.append(context))

    def submit(self, name: str, number: int = 0, size: int = 1) -> "asyncio.Future[Any]":
        return self.committer.submit(Asked(name, number), size, lambda answer: answer)

    async def until_committing(self, batches: int) -> None:
        await until_async(lambda: len(self.processor.batches) >= batches)

    async def close(self) -> None:
        """Commit the rest, and see that nothing is left over."""
        async with asyncio.timeout(60.0):
            await self.committer.close()
        assert self.unseen == []
        assert self.counters.get("queue") == 0


def test_whoever_has_gone_keeps_nobody_from_hearing() -> None:
    """Callers that gave up before the commit was done are passed over; the others hear, and the queue empties."""

    async def test() -> None:
        bench = Bench(Processor())
        futures = [bench.submit("one", number) for number in range(4)]
        await bench.until_committing(1)
        futures[0].cancel()
        futures[2].cancel()
        bench.processor.go.set()
        async with asyncio.timeout(60.0):
            assert await futures[1] == ("one", 1)
            assert await futures[3] == ("one", 3)
            assert await bench.submit("one", 4) == ("one", 4)
        assert bench.processor.batches == [[("one", k) for k in range(4)], [("one", 4)]]
        await bench.close()

    asyncio.run(test())


def test_whoever_has_gone_hears_no_error_either() -> None:
    async def test() -> None:
        bench = Bench(Processor(refuses=lambda commands: LedgerUnavailable("the disk is full")))
        gone, there = bench.submit("one", 0), bench.submit("two", 0)
        await bench.until_committing(1)
        gone.cancel()
        bench.processor.go.set()
        with refused(None, "the disk is full", error=LedgerUnavailable):
            await asyncio.wait_for(there, 60.0)
        assert bench.committer.failing == "the disk is full"
        assert bench.counters.get("failed_commits") == 1
        await bench.close()

    asyncio.run(test())


def test_what_is_left_of_an_experiment_goes_behind_the_others() -> None:
    """Two to a commit: an experiment with many commands takes its turn like everybody else."""

    async def test() -> None:
        bench = Bench(Processor(), commit=2)
        bench.processor.go.set()
        asked = [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 0), ("c", 0), ("d", 0)]
        answers = await asyncio.gather(*(bench.submit(*each) for each in asked))
        assert answers == asked
        assert bench.processor.batches == [
            [("a", 0), ("a", 1)],
            [("b", 0), ("c", 0)],
            [("d", 0), ("a", 2)],
            [("a", 3), ("a", 4)],
        ]
        await bench.close()

    asyncio.run(test())


def test_with_many_writers_an_experiment_is_committed_by_one_at_a_time() -> None:
    async def test() -> None:
        bench = Bench(Processor(writers=3), commit=2)
        futures = [bench.submit(name, number) for number in range(3) for name in ("a", "b")]
        await bench.until_committing(2)
        for _ in range(20):  # a third writer is free, but both experiments are being committed
            await asyncio.sleep(0)
        assert sorted(bench.processor.batches) == [[("a", 0), ("a", 1)], [("b", 0), ("b", 1)]]
        bench.processor.go.set()
        await asyncio.gather(*futures)
        assert sorted(bench.processor.batches[2:]) == [[("a", 2)], [("b", 2)]]
        await bench.close()

    asyncio.run(test())


def test_a_command_larger_than_a_commit_goes_alone() -> None:
    async def test() -> None:
        bench = Bench(Processor(), commit=10)
        bench.processor.go.set()
        await asyncio.gather(bench.submit("a", 0, 5), bench.submit("b", 0, 50), bench.submit("c", 0, 5))
        assert bench.processor.batches == [[("a", 0), ("c", 0)], [("b", 0)]]
        counts, total = bench.counters.commit_sizes()
        assert (sum(counts), total) == (2, 60)
        await bench.close()

    asyncio.run(test())


def test_one_command_that_fails_does_not_take_the_others_along(caplog: pytest.LogCaptureFixture) -> None:
    """The batch is tried once more, command by command."""

    def refuses(commands: Sequence[Command]) -> Exception | None:
        return RuntimeError("broken") if any(command.name == "b" for command in commands) else None

    async def test() -> None:
        bench = Bench(Processor(refuses=refuses))
        bench.processor.go.set()
        answers = await asyncio.gather(*(bench.submit(name) for name in ("a", "b", "c")), return_exceptions=True)
        assert [answers[0], answers[2]] == [("a", 0), ("c", 0)]
        assert isinstance(answers[1], RuntimeError)
        assert bench.committer.failing is None
        await bench.close()

    asyncio.run(test())
    assert [(record.levelname, record.args) for record in caplog.records] == [("ERROR", ("Asked", "b"))]


def test_an_error_is_logged_once_until_commits_work_again(caplog: pytest.LogCaptureFixture) -> None:
    broken = [True]

    async def test() -> None:
        bench = Bench(Processor(refuses=lambda commands: LedgerUnavailable("no disk") if broken[0] else None))
        bench.processor.go.set()
        for _ in range(3):
            with pytest.raises(LedgerUnavailable):
                await bench.submit("a")
        assert bench.committer.failing == "no disk"
        broken[0] = False
        await bench.submit("a")
        assert bench.committer.failing is None
        assert bench.counters.get("failed_commits") == 3
        await bench.close()

    asyncio.run(test())
    logged = [(record.levelname, record.args) for record in caplog.records if record.name == "belated.service"]
    assert logged == [("ERROR", ("1 command of a", "no disk")), ("WARNING", ("test:///",))]


def test_a_full_queue_and_a_worker_that_stops_take_nothing_more() -> None:
    """A command larger than the queue is taken where nothing waits."""

    async def test() -> None:
        bench = Bench(Processor(), queue=3)
        first = bench.submit("a", 0, 9)
        with pytest.raises(ApiError) as full:
            bench.submit("a", 1)
        assert full.value.problem.code == "busy"
        assert bench.counters.get("busy") == 1
        closing = asyncio.create_task(bench.close())
        await bench.until_committing(1)
        bench.processor.go.set()
        assert await first == ("a", 0)
        await closing
        with pytest.raises(ApiError) as stopped:
            bench.submit("a", 2)
        assert stopped.value.problem.code == "stopping"

    asyncio.run(test())


def test_what_fits_into_the_queue_is_taken() -> None:
    async def test() -> None:
        bench = Bench(Processor(), queue=3)
        futures = [bench.submit("a", number) for number in range(3)]
        with pytest.raises(ApiError):
            bench.submit("a", 3)
        bench.processor.go.set()
        await asyncio.gather(*futures)
        assert await bench.submit("a", 3) == ("a", 3)
        await bench.close()

    asyncio.run(test())
