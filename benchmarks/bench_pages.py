"""What the pages cost: decisions while many have a page open, and how long a page takes, with very much to show."""

import statistics
import tempfile
import time
from pathlib import Path

import httpx
from bench_readers import EVENTS, TURNS, decide, decide_with
from bench_service import Row, Turns, running, service
from load import KEY

from belated.client import Client
from belated.service.pages.session import COOKIE
from support.pages import fill_ledger
from support.ports import free_port

PAGE = "/experiments/e0"
DECISIONS = 1_000_000
EXPERIMENTS = 1_000
LOOKS = 7


def open_page_rows(folder: Path) -> list[Row]:
    """Decisions while nobody, twenty and a hundred have the page of the experiment open."""
    with service(f"sqlite:///{folder}/open.db") as (port, _):
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for _ in range(EVENTS // 1000):
                client.decide_many("e0", 1000)
        found = Turns(
            TURNS,
            alone=lambda: decide(port),
            twenty=lambda: decide_with(port, [f"{PAGE}/live"] * 20),
            hundred=lambda: decide_with(port, [f"{PAGE}/live"] * 100),
        )
    alone, twenty, hundred = (found.milliseconds(each) for each in ("alone", "twenty", "hundred"))
    rows: list[Row] = [
        ("pages: p50 and p99 of decisions, no page open", f"{alone[0]:.2f} ms, {alone[1]:.2f} ms", "", None)
    ]
    for word, (p50, p99) in (("twenty", twenty), ("a hundred", hundred)):
        rows.append((f"  {word} pages open", f"{p50:.2f} ms, {p99:.2f} ms", "", None))
        rows.append(("  p99 over that without", f"{p99 / alone[1]:.2f}", "at most 1.5", p99 <= 1.5 * alone[1]))
    return rows


def million_rows(folder: Path) -> list[Row]:
    """The page of an experiment with a million settled decisions, by a service that has just started."""
    store, port = f"sqlite:///{folder}/million.db", free_port()
    fill_ledger(store, KEY, "e0", DECISIONS)
    serve = ["-m", "belated.cli", "serve", "--store", store, "--port", str(port)]
    rows: list[Row] = []
    for word in ("first start", "second start"):
        with running(serve, port), httpx.Client(base_url=f"http://127.0.0.1:{port}", cookies={COOKIE: KEY}) as http:
            begun = time.perf_counter()
            page = http.get(PAGE, timeout=60).raise_for_status()
            first = time.perf_counter() - begun
            _until_known(http)
            known = time.perf_counter() - begun
            rows += [
                (
                    f"pages: {DECISIONS:,} decisions, {word}, seconds to the page",
                    f"{first:.2f} s",
                    "at most 1 s",
                    first <= 1.0,
                ),
                ("  bytes of the page", f"{len(page.content):,}", "at most 300,000", len(page.content) <= 300_000),
                ("  seconds until it says who wins", f"{known:.2f} s", "", None),
            ]
    return rows


def _until_known(http: httpx.Client) -> None:
    """Listen as the page does, until it hears what is known."""
    with http.stream("GET", f"{PAGE}/live", timeout=120) as answer:
        for line in answer.iter_lines():
            if line == "event: known":
                return
    raise RuntimeError("the page did not hear what is known")


def overview_rows(folder: Path) -> list[Row]:
    """The list of a thousand experiments."""
    seconds = []
    with service(f"sqlite:///{folder}/many.db", experiments=EXPERIMENTS) as (port, _):
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}", cookies={COOKIE: KEY})
        for _ in range(LOOKS):
            begun = time.perf_counter()
            page = http.get("/", timeout=60).raise_for_status()
            seconds.append(time.perf_counter() - begun)
        http.close()
    name = f"pages: the list of {EXPERIMENTS:,} experiments, first and median of {LOOKS}"
    size = f"{len(page.content) / 1000:.0f} kB"
    return [(name, f"{seconds[0]:.2f} s, {statistics.median(seconds):.2f} s, {size}", "", None)]


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*open_page_rows(folder), *million_rows(folder), *overview_rows(folder)]
