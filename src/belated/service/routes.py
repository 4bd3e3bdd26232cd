"""Every path of the service: who may, what goes in, what comes out. The OpenAPI document is made from this table."""

from typing import Annotated

from msgspec import Meta

from belated.api.types import (
    MOST_AT_ONCE,
    DecisionRequest,
    DecisionResponse,
    Experiment,
    Experiments,
    Health,
    NewExperiment,
    OutcomeReceipt,
    OutcomeReport,
)
from belated.ledger.export import FORMATS
from belated.service import handlers
from belated.service.http import Operation, Query

ONE = "/v1/experiments/{name}"
_SOME = Meta(min_length=1, max_length=MOST_AT_ONCE)

OPERATIONS = [
    Operation(
        "POST",
        "/v1/experiments",
        "Create an experiment. The same request again answers with the experiment there is.",
        handlers.create,
        "admin",
        {200: Experiment, 201: Experiment},
        body=NewExperiment,
        refusals=("exists", "too_many"),
    ),
    Operation(
        "GET",
        "/v1/experiments",
        "List the experiments.",
        handlers.list_experiments,
        "read",
        {200: Experiments},
        query=(Query("status", "only those", ("all", "active", "paused", "archived"), "all"),),
    ),
    Operation(
        "GET",
        ONE,
        "The state of an experiment: distribution, counts, outstanding, patience, drift, delays.",
        handlers.read,
        "read",
        {200: Experiment},
        refusals=("unknown_experiment",),
        query=(Query("digest", "with a digest of the whole state, to compare", ("false", "true"), "false"),),
    ),
    Operation(
        "POST",
        f"{ONE}/decisions",
        "Decide: one decision, or a list of up to 1,000. An id that was used before answers with its decision.",
        handlers.decide,
        "decide",
        {200: DecisionResponse | list[DecisionResponse]},
        body=DecisionRequest | Annotated[list[DecisionRequest], _SOME],
        body_required=False,
        refusals=("unknown_experiment", "paused", "archived"),
    ),
    Operation(
        "POST",
        f"{ONE}/outcomes",
        "Report the outcome of a decision, or a list of up to 1,000, each answered for itself.",
        handlers.observe,
        "decide",
        {200: OutcomeReceipt | list[OutcomeReceipt]},
        body=OutcomeReport | Annotated[list[OutcomeReport], _SOME],
        refusals=("unknown_experiment", "unknown_decision", "conflict"),
    ),
    *(
        Operation(
            "POST",
            f"{ONE}/{word}",
            summary,
            handler,
            "admin",
            {200: Experiment},
            refusals=("unknown_experiment", "archived"),
        )
        for word, summary, handler in (
            ("pause", "Decide nothing new until resumed; outcomes are still taken.", handlers.pause),
            ("resume", "Decide again.", handlers.resume),
            ("archive", "Decide nothing new, for good; outcomes are still taken.", handlers.archive),
        )
    ),
    Operation(
        "GET",
        f"{ONE}/ledger",
        "Every event of an experiment, streamed.",
        handlers.ledger,
        "read",
        {200: tuple(kind.partition(";")[0] for kind in FORMATS.values())},
        refusals=("unknown_experiment", "no_parquet"),
        query=(
            Query("format", "how it is written", tuple(FORMATS), "ndjson"),
            Query("after", "only events numbered after this one"),
        ),
    ),
    Operation(
        "GET",
        f"{ONE}/stream",
        "Server-sent events: the state of an experiment whenever it has changed.",
        handlers.stream,
        "read",
        {200: ("text/event-stream",)},
        refusals=("unknown_experiment",),
    ),
    Operation("GET", "/metrics", "Figures for Prometheus.", handlers.show_metrics, "read", {200: ("text/plain",)}),
    Operation("GET", "/healthz", "Whether the worker lives.", handlers.health, None, {200: Health}),
    Operation("GET", "/readyz", "Whether the worker can commit.", handlers.ready, None, {200: Health, 503: Health}),
    Operation(
        "GET", "/openapi.json", "This description, for programs.", handlers.openapi, None, {200: ("application/json",)}
    ),
    Operation("GET", "/docs", "This description, for people.", handlers.docs, None, {200: ("text/html",)}),
]
