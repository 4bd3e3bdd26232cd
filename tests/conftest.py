"""What every test relies on, however pytest was started."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.postgres import Postgres
from support.sampling import SEED
from support.serving import POSTGRES

# nohup, and shells that start a job in the background, let it ignore SIGINT, and processes that tests start would
# inherit that: those that test an interrupt would never be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

# An HTTP client loads the certificates of all authorities that it may trust, for 30 ms; no test speaks HTTPS.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "authority.pem")

MAX_FAILURES_SHOWN = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reword", action="store_true", help="write the wording of messages to tests/data/messages.txt")


def pytest_report_header() -> str:
    return f"combinations are drawn with BELATED_TEST_SEED={SEED}"


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Iterator[None]:
    """Start one PostgreSQL server for all processes of pytest-xdist, before they are started."""
    if getattr(session.config.option, "numprocesses", None) and POSTGRES not in os.environ:
        server = Postgres.start()
        os.environ[POSTGRES] = server.url("postgres")
        session.config.add_cleanup(server.close)
    yield


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """End with which tests failed and why, in a few lines, in place of the summary that `-r` gives."""
    failed = [each for kind in ("failed", "error") for each in terminalreporter.stats.get(kind, [])]
    for report in failed[:MAX_FAILURES_SHOWN]:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else str(report.longrepr)
        terminalreporter.write_line(f"FAILED {report.nodeid}", red=True)
        for line in why.strip().splitlines()[:4]:
            terminalreporter.write_line(f"    {line[:200]}")
    if failed:
        terminalreporter.write_line(pytest_report_header())
        more = f", of which {MAX_FAILURES_SHOWN} are shown" if len(failed) > MAX_FAILURES_SHOWN else ""
        terminalreporter.write_line(f"{len(failed)} failed{more}. To run one: .venv/bin/python -m pytest 'NAME'")
