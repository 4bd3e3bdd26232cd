"""Every path of the service: who may, what goes in, what comes out. The OpenAPI document is made from this table."""

from typing import Annotated

from msgspec import Meta

from belated.api.types import (
    MOST_AT_ONCE,
    DecisionRequest,
    DecisionResponse,
    Experiment,
    ExperimentEstimates,
    Experiments,
    ExperimentTimeline,
    FallbackReceipt,
    Fallbacks,
    Health,
    NewArm,
    NewExperiment,
    OutcomeReceipt,
    OutcomeReport,
    ShareLimits,
)
from belated.inference.stream import OUTCOMES
from belated.ledger.export import FORMATS
from belated.service import handlers
from belated.service.http import Operation, Query

ONE = "/v1/experiments/{name}"
_SOME = Meta(min_length=1, max_length=MOST_AT_ONCE)

OPERATIONS = [
    Operation(
        "POST",
        "/v1/experiments",
        "Create an experiment. Sending the same request again returns the existing experiment.",
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
        query=(Query("status", "only experiments with this status", ("all", "active", "paused", "archived"), "all"),),
    ),
    Operation(
        "GET",
        ONE,
        "Return the state of an experiment: probabilities, counts, outstanding decisions, patience, delays, warnings.",
        handlers.read,
        "read",
        {200: Experiment},
        refusals=("unknown_experiment",),
        query=(
            Query(
                "digest",
                "include a digest of the experiment's whole state, for comparisons",
                ("false", "true"),
                "false",
            ),
        ),
    ),
    Operation(
        "GET",
        f"{ONE}/timeline",
        "Return what an experiment did over time: decisions, outcomes and losses by arm, outstanding, delays.",
        handlers.timeline,
        "read",
        {200: ExperimentTimeline},
        refusals=("unknown_experiment",),
    ),
    Operation(
        "GET",
        f"{ONE}/estimates",
        "Return which arm wins and how sure that is: means, differences, uplift, with intervals that hold at any time.",
        handlers.estimates,
        "read",
        {200: ExperimentEstimates},
        refusals=("unknown_experiment",),
        query=(
            Query("alpha", "how probably each kind of statement may be wrong", default="0.05", kind="share"),
            Query("control", "the label of an arm to compare the others with", default="", kind="text"),
            Query(
                "method",
                "auto: for means that move, where it can be used",
                ("auto", "randomisation", "betting"),
                "auto",
            ),
            Query(
                "outcomes",
                "`settled`: decisions in order, as far as all have outcomes; `arrived`: all outcomes, right only if"
                " delays do not depend on them; `bounded`: all decisions, unknown rewards from 0 to 1",
                OUTCOMES,
                "settled",
            ),
        ),
    ),
    Operation(
        "POST",
        f"{ONE}/decisions",
        "Make a decision, or a list of up to 1,000. An id that was used before returns the same decision.",
        handlers.decide,
        "decide",
        {200: DecisionResponse | list[DecisionResponse]},
        body=DecisionRequest | Annotated[list[DecisionRequest], _SOME],
        body_required=False,
        refusals=("unknown_experiment", "paused", "archived"),
        asked=handlers.decision,
    ),
    Operation(
        "POST",
        f"{ONE}/outcomes",
        "Report the outcome of a decision, or a list of up to 1,000; each gets its own receipt.",
        handlers.observe,
        "decide",
        {200: OutcomeReceipt | list[OutcomeReceipt]},
        body=OutcomeReport | Annotated[list[OutcomeReport], _SOME],
        refusals=("unknown_experiment", "unknown_decision", "conflict"),
        asked=handlers.outcome,
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
            (
                "pause",
                "Stop new decisions until the experiment is resumed. Outcomes are still accepted.",
                handlers.pause,
            ),
            ("resume", "Allow new decisions again after a pause.", handlers.resume),
            ("archive", "Stop new decisions for good. Outcomes are still accepted.", handlers.archive),
        )
    ),
    Operation(
        "POST",
        f"{ONE}/arms",
        "Add an arm. It takes part from the next decision on; what is known of the others stays.",
        handlers.add_arm,
        "admin",
        {200: Experiment},
        body=NewArm,
        refusals=("unknown_experiment", "archived", "retired"),
    ),
    *(
        Operation(
            "POST",
            f"{ONE}/arms/{{arm}}/{word}",
            summary,
            handler,
            "admin",
            {200: Experiment},
            refusals=("unknown_experiment", "unknown_arm", "archived"),
        )
        for word, summary, handler in (
            (
                "retire",
                "Retire an arm: it is not chosen any more. Outcomes of its decisions are still accepted, but not"
                " learned from.",
                handlers.retire_arm,
            ),
            ("restore", "Bring a retired arm back. The learner takes it for a new one.", handlers.restore_arm),
        )
    ),
    Operation(
        "PUT",
        f"{ONE}/limits",
        "Limit the shares of arms, in place of the limits so far; an empty object lifts them all.",
        handlers.set_limits,
        "admin",
        {200: Experiment},
        body=ShareLimits,
        refusals=("unknown_experiment", "archived"),
    ),
    Operation(
        "POST",
        f"{ONE}/fallbacks",
        "Tell how often an arm was shown without a decision of the service, while it was away. An id counts once.",
        handlers.report_fallbacks,
        "decide",
        {200: FallbackReceipt},
        body=Fallbacks,
        refusals=("unknown_experiment", "unknown_arm", "archived"),
    ),
    Operation(
        "GET",
        f"{ONE}/ledger",
        "Stream every event of an experiment.",
        handlers.ledger,
        "read",
        {200: tuple(kind.partition(";")[0] for kind in FORMATS.values())},
        refusals=("unknown_experiment", "no_parquet"),
        query=(
            Query("format", "the format of the events", tuple(FORMATS), "ndjson"),
            Query("after", "only events numbered after this one"),
        ),
    ),
    Operation(
        "GET",
        f"{ONE}/stream",
        "Stream the state of an experiment whenever it changes, as server-sent events.",
        handlers.stream,
        "read",
        {200: ("text/event-stream",)},
        refusals=("unknown_experiment",),
    ),
    Operation(
        "GET", "/metrics", "Return metrics for Prometheus.", handlers.show_metrics, "read", {200: ("text/plain",)}
    ),
    Operation("GET", "/healthz", "Report whether the worker is running.", handlers.health, None, {200: Health}),
    Operation(
        "GET",
        "/readyz",
        "Report whether the worker can commit to the ledger.",
        handlers.ready,
        None,
        {200: Health, 503: Health},
    ),
    Operation(
        "GET",
        "/openapi.json",
        "Return this description for programs, as OpenAPI.",
        handlers.openapi,
        None,
        {200: ("application/json",)},
    ),
    Operation(
        "GET", "/docs", "Return this description as a page for people.", handlers.docs, None, {200: ("text/html",)}
    ),
]
