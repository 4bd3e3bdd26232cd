"""Messages of the service: what is wrong with a request, with a key, with a limit."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from belated.api.types import NewExperiment, shown
from belated.cli.main import main
from belated.cli.options import moment
from belated.ledger import open_ledger
from belated.ledger.events import SECOND, ApiKey
from belated.ledger.keys import new_key
from belated.service.auth import Authenticator, Caller
from belated.service.errors import ApiError
from belated.service.handlers import _check_learner, _settings, outcome
from belated.service.http import _decoded, _query
from belated.service.limits import Limits
from belated.service.routes import OPERATIONS

Cases = dict[str, Callable[[Path], object]]
OPERATION = {operation.handler.__name__: operation for operation in OPERATIONS}
BODY = {"name": "shop", "arms": ["x", "y"]}
DEADLINE = {"deadline": 5, "loss": 1}
UNITS = {"lowest": 0, "highest": 200}
EXPERIMENTS: list[dict[str, Any]] = [
    {"name": None},
    {"name": "a b"},
    {"arms": 1},
    {"arms": 10_001},
    {"arms": True},
    {"arms": 2.5},
    {"arms": "ab"},
    {"arms": ["a"]},
    {"arms": ["a", ""]},
    {"arms": ["a", 1.5]},
    {"arms": ["a", 10**20]},
    {"arms": ["a", "a"]},
    {"seed": -1},
    {"colour": "blue"},
    {"missing": "never"},
    {"missing": {**DEADLINE, "deadline": 0}},
    {"missing": {"deadline": 5}},
    {"missing": {**DEADLINE, "learn": "later"}},
    {"missing": {**DEADLINE, "x": 1}},
    {"parameters": {"kappa": [1]}},
    {"parameters": {"a.b": []}},
    {"parameters": 5},
    {"share_floor": 2},
    {"share_floor": 0.6},
    {"outcome": {"lowest": 0}},
    {"outcome": {**UNITS, "better": "more"}},
    {"outcome": {**UNITS, "highest": 0}},
    {"reports": "all"},
    {"reports": "sum"},
    {"limits": {"holdout": -1}},
    {"limits": {"arms": [{"arm": "z", "floor": 0.9}]}},
    {"limits": {"arms": [{"arm": "x", "floor": 0.9, "ceiling": 0.1}]}},
    {"learner": "robst"},
    {"learner": "damped"},
    {"learner": "exp3_delayed", "parameters": {"horizon": 100, "total_delay": 10}},
    {"learner": "ucb", "parameters": {"settled": 10}},
    {"learner": "ucb", "parameters": {"share_floor": 0.1}},
    {"parameters": {"kapa": 1}},
]
OUTCOMES: list[Any] = [
    {"loss": 0.5},
    {"decision": 5, "loss": 0.5},
    {"decision": "a b", "loss": 0.5},
    {"decision": "d"},
    {"decision": "d", "loss": 1.5},
    {"decision": "d", "reward": 2},
    {"decision": "d", "loss": 0, "reward": 1},
    {"decision": "d", "value": 5, "reward": 1},
    {"decision": "d", "value": "5"},
    {"decision": "d", "value": 1e301},
    {"decision": "d", "value": 5, "report": "a b"},
    {"decision": "d", "loss": 0.5, "report": "r"},
    [{"decision": "d", "loss": 0.5}, {"decision": "d", "loss": 7}],
    [],
    17,
]
OTHERS: list[tuple[str, Any]] = [
    ("decide", {"id": ""}),
    ("decide", {"": 1}),
    ("add_arm", {"arm": ""}),
    ("set_limits", {"arms": [{"arm": "x", "floor": 1.6}]}),
    ("report_fallbacks", {"id": "f", "arm": "x", "count": 0}),
]
QUERIES = [
    *(("estimates", query) for query in ("alpha=2", "method=aipw", "outcomes=all", "what=1")),
    *(("ledger", query) for query in ("format=xml", "after=-1")),
    ("read", "digest=1"),
]


def refusals(each: Iterable[Callable[[], object]]) -> str:
    """Return a line for each refusal: code, field and message."""
    lines = []
    for ask in each:
        try:
            ask()
            lines.append("nothing is wrong")
        except ApiError as error:
            problem = error.problem
            lines.append(f"{error.status} {problem.code} {problem.field or '-'}: {problem.message}")
    return "\n".join(lines)


def decoded(operation: str, body: Any) -> Any:
    described = OPERATION[operation]
    return _decoded(msgspec.json.Decoder(described.body).decode, described, msgspec.json.encode(body))


def created(change: dict[str, Any]) -> None:
    body: NewExperiment = decoded("create", {key: each for key, each in (BODY | change).items() if each is not None})
    _check_learner(body)
    _settings(body)


def observed(body: Any) -> None:
    outcome("shop", decoded("observe", body), None)


def key(name: str, **changed: Any) -> tuple[bytes, ApiKey]:
    secret, made = new_key(name, "read")
    return f"Bearer {secret}".encode(), made._replace(**changed)


def asked() -> str:
    """Return what those are told who come with a key that does not open."""
    (good, one), (ended, two), (fast, three) = key("a"), key("b", expires=10 * SECOND), key("c", rate=1 / 3600)

    async def read() -> list[ApiKey]:
        return [one, two, three]

    async def check(header: bytes | None, role: str) -> Caller:
        auth = Authenticator(read)
        await auth.refresh()
        await auth.check(header, role)
        return await auth.check(header, role)

    def run(header: bytes | None, role: str = "read") -> Caller:
        return asyncio.run(check(header, role))

    scoped = Caller(one._replace(experiments=("news",)))
    return refusals(
        [
            *(partial(run, each) for each in (None, b"Basic x", b"Bearer x", ended, fast)),
            partial(run, good, "decide"),
            lambda: scoped.check_scope("shop"),
        ]
    )


def keys(*arguments: str) -> Callable[[Path], object]:
    return lambda folder: main(["keys", "create", *arguments, "--store", f"sqlite:///{folder}/ledger.db"])


def forget(*arguments: str) -> Callable[[Path], object]:
    def run(folder: Path) -> None:
        store = f"sqlite:///{folder}/ledger.db"
        open_ledger(store).close()
        main(["ledger", "forget", *arguments, "--store", store])

    return run


CASES: Cases = {
    "an experiment": lambda _: refusals(partial(created, each) for each in EXPERIMENTS),
    "an outcome": lambda _: refusals(partial(observed, each) for each in OUTCOMES),
    "other bodies": lambda _: refusals(partial(decoded, *each) for each in OTHERS),
    "a query": lambda _: refusals(partial(_query, OPERATION[name], query.encode()) for name, query in QUERIES),
    "a key": lambda _: asked(),
    "a large number": lambda _: f"{shown(10**5000)}\n{shown(10**300 - 1)}",
    "a limit that is no whole number": lambda _: Limits(queue=1.5),  # type: ignore[arg-type]
    "a limit out of its range": lambda _: Limits(head_seconds=0.0),
    "belated keys: a time that is past": keys("x", "--expires", "2020-01-01"),
    "belated keys: a time that is none": lambda _: moment("soon"),
    "belated keys: a name that is taken": keys("BELATED_ADMIN_KEY"),
    "belated keys: no experiment": keys("x", "--experiments", "a b"),
    "belated ledger forget: nowhere": forget("nowhere", "--id", "a"),
    "belated ledger forget: which experiment": forget("--id", "a"),
    "belated ledger forget: one or all": forget("one", "--all", "--id", "a"),
    "belated ledger forget: which ids": forget("one"),
    "belated serve: a limit": lambda _: main(["serve", "--port", "0", "--limit-at-once=1001"]),
}
