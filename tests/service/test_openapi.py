"""The OpenAPI document: valid, made from the types, and true of a real server whatever it is asked."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
import schemathesis

from belated import __version__
from belated.api import types
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from support.http_helpers import create, decide, observe, serving, talk
from support.serving import ADMIN_KEY, KINDS, Server

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(OPERATIONS, __version__)))
SETTINGS = {
    "seed": 1,
    "generation": {
        "mode": "all",  # what the document allows, and what it does not
        "max-examples": 30,
        "deterministic": True,
        "database": "none",
        "with-security-parameters": False,
    },
    # A body may be of its type and still make no sense: an unknown learner, a loss and a reward.
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "422"]}},
    "parameters": {"path.name": "asked"},
    "operations": [
        {"include-operation-id": ["pause", "resume", "archive"], "parameters": {"path.name": "changed"}},
        {"include-operation-id": ["retire_arm", "restore_arm"], "parameters": {"path.arm": "a/ü"}},
    ],
}
STRICT = {
    *("NewExperiment", "DecisionRequest", "OutcomeReport", "Deadline", "OutcomeScale", "ShareLimits", "ArmLimit"),
    *("NewArm", "Fallbacks"),
}
"""The types of requests, which have no fields but their own."""
schema = schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config.from_dict(SETTINGS))
answered: Counter[tuple[str, int]] = Counter()


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running, talk(running) as http:
        for name in ("asked", "changed", "0"):
            create(http, name, ("x", "y", "a/ü"))
            decide(http, name, "0", "00", "A", "1")
        observe(http, "asked", {"1": 1.0})
        yield running


@schema.exclude(operation_id="stream").parametrize()
def test_every_answer_is_one_that_the_document_allows(case: schemathesis.Case[Any], server: Server) -> None:
    """No 5xx, no status, media type or body but those of the document; what it forbids is refused."""
    response = case.call_and_validate(server.url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=20)
    assert response.status_code < 500
    answered[case.operation.label, response.status_code] += 1


def test_every_operation_was_asked_and_answered_well(server: Server) -> None:
    """The test above has hit what there is, not only what there is not."""
    for operation in OPERATIONS:
        if operation.handler.__name__ != "stream":
            label = f"{operation.method} {operation.path}"
            assert sum(answered[label, status] for status in (200, 201)) >= 3, label
            assert sum(count for (each, _), count in answered.items() if each == label) >= 8, label
    for label, statuses in (
        ("POST /v1/experiments", (409,)),
        ("POST /v1/experiments/{name}/outcomes", (404, 409)),
        ("POST /v1/experiments/{name}/decisions", (422,)),
        ("POST /v1/experiments/{name}/arms", (422,)),
        ("PUT /v1/experiments/{name}/limits", (422,)),
        ("POST /v1/experiments/{name}/fallbacks", (404,)),
    ):
        assert sum(answered[label, status] for status in statuses) >= 1, label
    assert "Traceback" not in server.log.read_text()


def test_the_server_shows_this_document(server: Server) -> None:
    response = httpx.get(f"{server.url}/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == DOCUMENT


def test_the_document_is_valid_openapi() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    schema.validate()
    for each in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(each)


@pytest.mark.parametrize("part", ["info", "paths", "openapi"])
def test_a_document_that_is_not_valid_would_be_noticed(part: str) -> None:
    broken = json.loads(json.dumps(DOCUMENT))
    if part == "paths":
        del broken["paths"]["/healthz"]["get"]["responses"]["200"]["description"]
    else:
        broken[part] = {"title": 5} if part == "info" else "3.1"
    with pytest.raises((jsonschema_rs.ValidationError, schemathesis.errors.SchemathesisError)):
        schemathesis.openapi.from_dict(broken).validate()


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
