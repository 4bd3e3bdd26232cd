"""The OpenAPI document: valid, made from the types, and true of a real server whatever it is asked."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from belated import __version__
from belated.api import types
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from support.http_helpers import MOSTLY_SQLITE, create, decide, observe, serving, talk
from support.serving import ADMIN_KEY, Server

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(OPERATIONS, __version__)))
SETTINGS = {
    "generation": {"with-security-parameters": False},
    # A body may be of its type and still make no sense: an unknown learner, a loss and a reward.
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "422"]}},
}
CHANGED = ("pause", "resume", "archive")
"""These have an experiment of their own."""
OPERATION = {f"{each.method} {each.path}": each for each in OPERATIONS if each.handler.__name__ != "stream"}
MET: list[tuple[str, Any, int]] = [
    ("POST /v1/experiments", {"name": "new", "arms": 2}, 201),
    ("POST /v1/experiments", {"name": "asked", "arms": ["x", "y", "a/ü"], "seed": 1}, 200),
    ("POST /v1/experiments", {"name": "asked", "arms": 2}, 409),
    ("POST /v1/experiments/{name}/decisions", [{"id": "0"}, {}], 200),
    ("POST /v1/experiments/{name}/decisions", {"id": ""}, 422),
    ("POST /v1/experiments/{name}/outcomes", {"decision": "open", "loss": 0.5}, 200),
    ("POST /v1/experiments/{name}/outcomes", {"decision": "told", "loss": 0.5}, 409),
    ("POST /v1/experiments/{name}/outcomes", {"decision": "nobody", "loss": 0.5}, 404),
    ("POST /v1/experiments/{name}/arms", {"arm": "new"}, 200),
    ("POST /v1/experiments/{name}/arms", {"arm": ""}, 422),
    ("PUT /v1/experiments/{name}/limits", {"arms": [{"arm": "x", "ceiling": 0.5}]}, 200),
    ("PUT /v1/experiments/{name}/limits", {"arms": [{"arm": "nobody"}]}, 422),
    ("POST /v1/experiments/{name}/fallbacks", {"id": "f", "arm": "x", "count": 1}, 200),
    ("POST /v1/experiments/{name}/fallbacks", {"id": "g", "arm": "nobody", "count": 1}, 404),
]
"""Answers that only a body of some sense is given."""
STRICT = {
    *("NewExperiment", "DecisionRequest", "OutcomeReport", "Deadline", "OutcomeScale", "ShareLimits", "ArmLimit"),
    *("NewArm", "Fallbacks"),
}
"""The types of requests, which have no fields but their own."""
schema = schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config.from_dict(SETTINGS))


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running, talk(running) as http:
        for name in ("asked", "changed", "0"):
            create(http, name, ("x", "y", "a/ü"))
            decide(http, name, "0", "00", "A", "open", "told")
        observe(http, "asked", {"told": 1.0})
        yield running


def described(label: str) -> tuple[Any, dict[str, str]]:
    """An operation as the document has it, and what its path names."""
    operation = OPERATION[label]
    name = "changed" if operation.handler.__name__ in CHANGED else "asked"
    values = {word: value for word, value in (("name", name), ("arm", "a/ü")) if f"{{{word}}}" in operation.path}
    return schema[operation.path][operation.method], values


def ask(case: schemathesis.Case[Any], server: Server) -> int:
    """Return the status of an answer that is as the document says."""
    response = case.call_and_validate(server.url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=60)
    assert response.status_code < 500
    return response.status_code


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("label", OPERATION)
def test_every_answer_is_one_that_the_document_allows(
    server: Server, label: str, examples: int, mode: GenerationMode
) -> None:
    """No 5xx, no status, media type or body but those of the document; what it forbids is refused."""
    operation, values = described(label)
    answered: Counter[int] = Counter()

    @settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck]
    )
    @given(operation.as_strategy(generation_mode=mode, path_parameters=values))
    def ask_often(case: schemathesis.Case[Any]) -> None:
        answered[ask(case, server)] += 1

    with suppress(Unsatisfiable):  # nothing is forbidden where nothing is asked for
        ask_often()
    if mode == GenerationMode.POSITIVE:
        assert answered[200] or OPERATION[label].body
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(("label", "body", "status"), MET)
def test_the_document_allows_what_is_answered(server: Server, label: str, body: Any, status: int) -> None:
    operation, values = described(label)
    assert ask(operation.Case(body=body, path_parameters=values, media_type="application/json"), server) == status


def test_the_server_shows_this_document(server: Server) -> None:
    response = httpx.get(f"{server.url}/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == DOCUMENT


def test_the_document_is_valid_openapi() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    schema.validate()
    for each in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(each)


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def test_every_reference_leads_somewhere_and_every_type_is_used() -> None:
    components = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) <= components
    unused = components - set(references(DOCUMENT))
    assert unused <= {"#/components/schemas/LedgerEvent"}  # of lines of NDJSON, which have no schema


def test_the_document_has_every_operation_with_its_role_and_nothing_else() -> None:
    described = {
        (method.upper(), path): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert set(described) == {(operation.method, operation.path) for operation in OPERATIONS}
    assert len(described) == len(OPERATIONS) == 22
    ids = [each["operationId"] for each in described.values()]
    assert len(set(ids)) == len(ids)
    for operation in OPERATIONS:
        shown = described[operation.method, operation.path]
        assert shown["summary"] == operation.summary
        if operation.role is None:
            assert shown["security"] == []
            assert "401" not in shown["responses"]
        else:
            assert shown["security"] == [{"key": []}]
            assert shown["description"] == f"Needs a key with the role {operation.role}."
            assert {"401", "403", "503"} <= set(shown["responses"])
        asked = {(each["in"], each["name"], each["required"]) for each in shown.get("parameters", [])}
        named = {("path", word, True) for word in ("name", "arm") if f"{{{word}}}" in operation.path}
        assert asked == named | {("query", query.name, False) for query in operation.query}
        assert ("requestBody" in shown) == (operation.body is not None)
        assert {str(status) for status in operation.responses} <= set(shown["responses"])


def test_the_types_of_the_document_are_those_that_travel() -> None:
    for name, described in DOCUMENT["components"]["schemas"].items():
        kind = getattr(types, name)
        fields = msgspec.structs.fields(kind)
        assert list(described["properties"]) == [field.encode_name for field in fields]
        assert described.get("required", []) == [field.encode_name for field in fields if field.required]
        strict = kind.__struct_config__.forbid_unknown_fields
        assert described.get("additionalProperties", True) is not strict
        assert strict == (name in STRICT)
    properties = DOCUMENT["components"]["schemas"]["NewExperiment"]["properties"]
    assert properties["name"]["maxLength"] == 100
    assert properties["seed"]["anyOf"][0]["maximum"] == types.MOST_SEED
    many = DOCUMENT["paths"]["/v1/experiments/{name}/decisions"]["post"]["requestBody"]["content"]
    assert types.MOST_AT_ONCE in {each.get("maxItems") for each in many["application/json"]["schema"]["anyOf"]}
