"""What Prometheus reads. Of experiments: what the ledger says, the same from every worker. Of workers: all of them."""

import time
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from belated.ledger.delay_histogram import BOUNDS
from belated.ledger.events import Fate
from belated.ledger.state import ExperimentState
from belated.service.counters import NO_ROUTE, SECONDS, SIZES, WorkerCounters
from belated.service.process import process_figures

KIND = CONTENT_TYPE_LATEST.encode()


class Figures(NamedTuple):
    """What is shown of an experiment."""

    name: str
    decisions: int
    used: int
    skipped_outcomes: int
    defaults: int
    held: int
    outstanding: int
    skipped: int
    clipped: int
    fallbacks: int
    delays: list[int]
    delay_sum: float


def experiment(state: ExperimentState) -> Figures:
    """Return the figures of an experiment."""
    return Figures(
        state.settings.name,
        state.bandit.rounds,
        state.fates[Fate.USED],
        state.skipped_outcomes,
        state.defaults,
        state.held,
        state.bandit.outstanding,
        state.bandit.skipped,
        state.clipped,
        state.fallbacks,
        list(state.histogram.counts),
        state.histogram.total,
    )


Routes = list[tuple[str, str]]
"""(method, path) of each operation, in the order of the table of routes."""


def text(experiments: Iterable[Figures], all_counters: list[WorkerCounters], routes: Routes) -> bytes:
    """Return all of it, as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(_Everything(list(experiments), all_counters, routes))
    return generate_latest(registry)


class _Everything(Collector):
    def __init__(self, experiments: list[Figures], all_counters: list[WorkerCounters], routes: Routes) -> None:
        self._experiments = experiments
        self._all_counters = all_counters
        self._routes = {NO_ROUTE: ("", "")} | {NO_ROUTE + 1 + k: route for k, route in enumerate(routes)}

    def collect(self) -> Iterator[Any]:
        by_name = ["experiment"]
        decisions = CounterMetricFamily("belated_decisions", "Decisions made.", labels=by_name)
        outcomes = CounterMetricFamily(
            "belated_outcomes", "Outcomes on record, by what became of them.", labels=["experiment", "receipt"]
        )
        defaults = CounterMetricFamily(
            "belated_defaults", "Deadlines that passed: default losses taken.", labels=by_name
        )
        held = GaugeMetricFamily("belated_held", "Outcomes kept until their deadlines pass.", labels=by_name)
        outstanding = GaugeMetricFamily("belated_outstanding", "Decisions still waited for.", labels=by_name)
        skipped = CounterMetricFamily("belated_skipped", "Decisions that the learner gave up on.", labels=by_name)
        clipped = CounterMetricFamily("belated_clipped", "Outcomes beyond the range of their units.", labels=by_name)
        fallbacks = CounterMetricFamily(
            "belated_fallbacks", "Decisions made without the service, as far as it was told.", labels=by_name
        )
        delays = HistogramMetricFamily("belated_delay_seconds", "From decisions to their outcomes.", labels=by_name)
        for each in self._experiments:
            name = [each.name]
            decisions.add_metric(name, each.decisions)
            outcomes.add_metric([each.name, "used"], each.used)
            outcomes.add_metric([each.name, "skipped"], each.skipped_outcomes)
            defaults.add_metric(name, each.defaults)
            held.add_metric(name, each.held)
            outstanding.add_metric(name, each.outstanding)
            skipped.add_metric(name, each.skipped)
            clipped.add_metric(name, each.clipped)
            fallbacks.add_metric(name, each.fallbacks)
            delays.add_metric(name, _buckets(BOUNDS, each.delays), each.delay_sum)
        yield from (decisions, outcomes, defaults, held, outstanding, skipped, clipped, fallbacks, delays)
        yield from self._of_workers()
        yield from self._of_requests()
        yield from self._of_processes()

    def _of_workers(self) -> Iterator[Any]:
        by_worker = ["worker"]
        refused = CounterMetricFamily(
            "belated_outcomes_not_recorded", "Outcomes that changed nothing, by receipt.", labels=["worker", "receipt"]
        )
        busy = CounterMetricFamily("belated_busy", "Requests refused because the queue was full.", labels=by_worker)
        failed = CounterMetricFamily("belated_failed_commits", "Commits that failed.", labels=by_worker)
        queue = GaugeMetricFamily("belated_queue_length", "Decisions and outcomes to be committed.", labels=by_worker)
        clock = GaugeMetricFamily(
            "belated_clock_offset_seconds",
            "How far the ledger's clock is ahead of the time that is used; 0 while it is followed.",
            labels=by_worker,
        )
        oldest = GaugeMetricFamily(
            "belated_queue_oldest_seconds", "How long the oldest waiting command has waited.", labels=by_worker
        )
        connections = GaugeMetricFamily("belated_connections", "Open connections.", labels=by_worker)
        gave_way = CounterMetricFamily(
            "belated_connections_gave_way", "Waiting connections closed in favour of new ones.", labels=by_worker
        )
        turned_away = CounterMetricFamily(
            "belated_connections_refused", "New connections refused at the limit.", labels=by_worker
        )
        damaged = GaugeMetricFamily(
            "belated_damaged_experiments", "Experiments whose records cannot be replayed.", labels=by_worker
        )
        sizes = HistogramMetricFamily("belated_commit_size", "Decisions and outcomes in a commit.", labels=by_worker)
        seconds = HistogramMetricFamily("belated_commit_seconds", "How long commits took.", labels=by_worker)
        for k, counters in enumerate(self._all_counters):
            worker = [str(k)]
            for receipt in ("repeated", "conflict", "unknown", "refused"):
                refused.add_metric([str(k), receipt], counters.get(receipt))
            busy.add_metric(worker, counters.get("busy"))
            failed.add_metric(worker, counters.get("failed_commits"))
            queue.add_metric(worker, counters.get("queue"))
            clock.add_metric(worker, counters.get("clock_offset"))
            since = counters.get("waiting_since")
            oldest.add_metric(worker, max(0.0, time.monotonic() - since) if since else 0.0)
            connections.add_metric(worker, counters.get("connections"))
            gave_way.add_metric(worker, counters.get("connections_gave_way"))
            turned_away.add_metric(worker, counters.get("connections_refused"))
            damaged.add_metric(worker, counters.get("damaged"))
            for family, bounds, (counts, total) in (
                (sizes, SIZES, counters.commit_sizes()),
                (seconds, SECONDS, counters.commit_seconds()),
            ):
                family.add_metric(worker, _buckets(bounds, counts), total)
        yield from (
            refused,
            busy,
            failed,
            queue,
            damaged,
            clock,
            oldest,
            connections,
            gave_way,
            turned_away,
            sizes,
            seconds,
        )

    def _of_requests(self) -> Iterator[Any]:
        """Show requests by route, as it stands in the table, and status. Those of no route have an empty one."""
        by_route = ["worker", "method", "route"]
        requests = CounterMetricFamily(
            "belated_requests", "Requests answered, by status; 0: another one.", labels=[*by_route, "status"]
        )
        seconds = HistogramMetricFamily(
            "belated_request_seconds", "From a request's arrival to the beginning of its answer.", labels=by_route
        )
        for k, counters in enumerate(self._all_counters):
            for number, route in self._routes.items():
                responses = counters.responses(number)
                for status, count in responses.items():
                    requests.add_metric([str(k), *route, str(status)], count)
                if responses:
                    counts, total = counters.response_seconds(number)
                    seconds.add_metric([str(k), *route], _buckets(SECONDS, counts), total)
        yield from (requests, seconds)

    def _of_processes(self) -> Iterator[Any]:
        by_worker = ["worker"]
        memory = GaugeMetricFamily("belated_process_resident_memory_bytes", "Memory in use.", labels=by_worker)
        cpu = CounterMetricFamily("belated_process_cpu_seconds", "Time on a processor.", labels=by_worker)
        files = GaugeMetricFamily("belated_process_open_fds", "Open files and connections.", labels=by_worker)
        start = GaugeMetricFamily("belated_process_start_time_seconds", "When it was started.", labels=by_worker)
        for k, counters in enumerate(self._all_counters):
            found = process_figures(int(counters.get("process")))
            if found is not None:
                memory.add_metric([str(k)], found.memory)
                cpu.add_metric([str(k)], found.cpu)
                files.add_metric([str(k)], found.files)
                start.add_metric([str(k)], found.started)
        yield from (memory, cpu, files, start)


def _buckets(bounds: Iterable[float], counts: Iterable[float]) -> list[tuple[str, float]]:
    return list(zip([*map(str, bounds), "+Inf"], accumulate(counts), strict=True))
