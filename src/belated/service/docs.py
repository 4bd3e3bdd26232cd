"""The page at /docs: the OpenAPI document, prepared for the template that shows it to people."""

import json
from typing import Any

from belated.service.errors import CODES
from belated.templates import render

COMMON_CODES = (
    "bad_json",
    "no_key",
    "wrong_key",
    "expired_key",
    "wrong_role",
    "wrong_scope",
    "wrong_method",
    "not_found",
    "too_large",
    "invalid",
    "too_fast",
    "internal",
    "busy",
    "ledger_unavailable",
    "uncertain",
    "stopping",
)
"""Codes that any operation may answer; they are not repeated for each."""

EXAMPLE = """curl -X POST -H "Authorization: Bearer $KEY" localhost:8000/v1/experiments \\
     -d '{"name": "button", "arms": ["blue", "green", "red"]}'
curl -X POST -H "Authorization: Bearer $KEY" localhost:8000/v1/experiments/button/decisions \\
     -d '{"id": "visit-17"}'
curl -X POST -H "Authorization: Bearer $KEY" localhost:8000/v1/experiments/button/outcomes \\
     -d '{"decision": "visit-17", "reward": 1}'"""

Part = tuple[str, str]
"""A piece of a line: its kind (text, link, code or soft) and its text. A link leads to the id it names."""


def docs_page(document: dict[str, Any]) -> str:
    """Return the HTML page that shows an OpenAPI document of the service."""
    info = document["info"]
    errors = [{"code": code, "status": status, "meaning": meaning} for code, (status, meaning) in CODES.items()]
    return render(
        "docs.html",
        title=info["title"],
        version=info["version"],
        description=info["description"],
        example=EXAMPLE,
        operations=[
            _operation(method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ],
        own_errors=[error for error in errors if error["code"] not in COMMON_CODES],
        common_errors=[error for error in errors if error["code"] in COMMON_CODES],
        types=[_type(name, schema) for name, schema in sorted(document["components"]["schemas"].items())],
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    rows: list[tuple[str, list[Part]]] = []
    for parameter in operation.get("parameters", []):
        rows.append((f"{parameter['in']}: {parameter['name']}", _parameter(parameter)))
    if body := operation.get("requestBody"):
        rows.append(("body", _schema(body["content"]["application/json"]["schema"])))
    for status, response in operation["responses"].items():
        if int(status) < 300:
            kinds = [
                _schema(content["schema"]) if "schema" in content else [("text", media)]
                for media, content in response["content"].items()
            ]
            rows.append((f"response {status}", _joined(kinds, ", ")))
    codes = [code for code in operation["x-codes"] if code not in COMMON_CODES]
    if codes:
        rows.append(("errors", _joined([[("link", code)] for code in codes], ", ")))
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "role": operation["x-role"] or "no key",
        "summary": operation["summary"],
        "rows": rows,
    }


def _parameter(parameter: dict[str, Any]) -> list[Part]:
    schema = parameter["schema"]
    about = parameter.get("description") or schema.get("description", "")
    if "enum" in schema:
        about += f" ({', '.join(schema['enum'])}; default {schema['default']})"
    return [("text", about)]


def _type(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", [])
    fields = [
        (field, _schema(kind) + ([] if field in required else [_default(kind)]))
        for field, kind in schema.get("properties", {}).items()
    ]
    return {"name": name, "about": schema.get("description", ""), "fields": fields}


def _default(kind: dict[str, Any]) -> Part:
    return ("soft", f" · default {json.dumps(kind['default'])}" if "default" in kind else " · optional")


def _schema(schema: dict[str, Any]) -> list[Part]:
    """Return the line that describes a schema."""
    if "$ref" in schema:
        return [("link", schema["$ref"].rpartition("/")[2])]
    if "anyOf" in schema:
        parts = _joined([_schema(each) for each in schema["anyOf"]], " or ")
    elif "enum" in schema:
        parts = _joined([[("code", json.dumps(each))] for each in schema["enum"]], " or ")
    elif schema.get("type") == "array":
        length = _range(schema, "minItems", "maxItems")
        parts = [("text", "list of "), *_schema(schema.get("items", {})), ("text", length)]
    elif schema.get("type") == "object":
        parts = [("text", "object of "), *_schema(schema.get("additionalProperties") or {})]
    else:
        limits = f", above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
        limits += _range(schema, "minimum", "maximum") + _range(schema, "minLength", "maxLength", " characters")
        parts = [("text", f"{schema.get('type', 'anything')}{limits}")]
    about = schema.get("description")
    return [*parts, ("soft", f" ({about})")] if about else parts


def _joined(lines: list[list[Part]], between: str) -> list[Part]:
    """Return one line of several, with a text between them."""
    parts: list[Part] = []
    for k, line in enumerate(lines):
        parts += [("text", between), *line] if k else line
    return parts


def _range(schema: dict[str, Any], low: str, high: str, unit: str = "") -> str:
    if low in schema and high in schema:
        return f", {schema[low]:,} to {schema[high]:,}{unit}"
    return f", at most {schema[high]:,}{unit}" if high in schema else ""
