"""The OpenAPI 3.1 document, made from the table of operations and the types that they name."""

from typing import Any

import msgspec

from belated.api.types import LedgerEvent, Name, Problem
from belated.service.errors import STATUS
from belated.service.http import Operation, Query

REFERENCE = "#/components/schemas/{name}"
TITLE = "belated"
ABOUT = (
    "Decisions whose outcomes come late, out of order, or never. Ask for a decision, play its arm, and report the"
    " outcome whenever it comes. Every answer is committed before it is sent."
)


def document(operations: list[Operation], version: str) -> dict[str, Any]:
    """Return the whole description."""
    types = [Problem, LedgerEvent]
    for operation in operations:
        types += [operation.body] if operation.body else []
        types += [kind for kind in operation.responses.values() if not isinstance(kind, tuple)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schema_of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "`belated keys create` makes keys"}
            },
        },
    }


def _described(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    name = operation.handler.__name__
    described: dict[str, Any] = {"operationId": name, "summary": operation.summary, "responses": {}}
    described["x-role"] = operation.role
    described["x-codes"] = [code for codes in _refusals(operation).values() for code in codes]
    if operation.role is None:
        described["security"] = []
    else:
        described["security"] = [{"key": []}]
        described["description"] = f"Needs a key with the role {operation.role}."
    parameters = [_name()] if "{name}" in operation.path else []
    if "{arm}" in operation.path:
        schema = {"type": "string", "minLength": 1, "maxLength": 200}
        about = "the label of the arm; as text, where it is a number"
        parameters.append({"name": "arm", "in": "path", "required": True, "description": about, "schema": schema})
    parameters += [_parameter(query) for query in operation.query]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.body_required,
            "content": {"application/json": {"schema": schema_of[repr(operation.body)]}},
        }
    responses: dict[str, Any] = described["responses"]
    for status, kind in operation.responses.items():
        if isinstance(kind, tuple):
            content: dict[str, Any] = {media: {} for media in kind}
        else:
            content = {"application/json": {"schema": schema_of[repr(kind)]}}
        responses[str(status)] = {"description": "Done." if status < 300 else "Not possible now.", "content": content}
    for status, codes in sorted(_refusals(operation).items()):
        if str(status) in responses:
            continue
        responses[str(status)] = {
            "description": ", ".join(codes),
            "content": {"application/json": {"schema": schema_of[repr(Problem)]}},
        }
    return described


def _refusals(operation: Operation) -> dict[int, list[str]]:
    codes = [*operation.refusals, "wrong_method"]
    if operation.role is not None:
        codes += ["no_key", "wrong_key", "expired_key", "wrong_role", "too_fast", "ledger_unavailable", "stopping"]
        if "{name}" in operation.path or operation.body is not None:
            codes.append("wrong_scope")
    if operation.body is not None:
        codes += ["bad_json", "too_large", "invalid", "busy", "uncertain"]
    elif operation.method == "POST":
        codes += ["busy", "uncertain"]
    if "unknown_experiment" in operation.refusals:
        codes.append("damaged")
    if operation.query or "{arm}" in operation.path:
        codes.append("invalid")
    if operation.handler.__name__ == "stream":
        codes.append("busy")
    found: dict[int, list[str]] = {}
    for code in codes:
        found.setdefault(STATUS[code], []).append(code)
    return found


def _name() -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([Name])
    return {"name": "name", "in": "path", "required": True, "schema": schema}


def _parameter(query: Query) -> dict[str, Any]:
    schema: dict[str, Any]
    if query.choices:
        schema = {"type": "string", "enum": list(query.choices), "default": query.default}
    elif query.kind == "text":
        schema = {"type": "string", "default": query.default}
    elif query.kind == "share":
        schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": float(query.default)}
    else:
        schema = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1, "default": int(query.default)}
    return {"name": query.name, "in": "query", "required": False, "description": query.summary, "schema": schema}
