"""The description of the service for people: one page, no script, nothing from elsewhere."""

import json
from html import escape
from typing import Any

from belated.service.errors import CODES

_EVERYWHERE = (
    "bad_json",
    "no_key",
    "wrong_key",
    "wrong_role",
    "wrong_method",
    "not_found",
    "too_large",
    "invalid",
    "internal",
    "busy",
    "ledger_unavailable",
    "uncertain",
    "stopping",
)
"""Codes that are not repeated for each operation."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --line: #d9dee5; --ground: #fff; --box: #f5f7fa;
  --get: #1f6feb; --post: #1a7f4b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #343c47; --ground: #14181d;
  --box: #1c222a; --get: #79b8ff; --post: #6fd08c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--ground);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.9rem; margin: 0 0 .25rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; font-family: ui-monospace, monospace; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .4rem 0; } a { color: var(--get); } .soft { color: var(--soft); font-size: .9rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .86em; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem;
  overflow-x: auto; }
section { border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.1rem; margin: 0 0 .9rem; }
.get, .post { display: inline-block; min-width: 3.4rem; font-weight: 700; } .get { color: var(--get); }
.post { color: var(--post); }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 0; font-size: .9rem; }
td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
td:first-child { width: 9.5rem; color: var(--soft); } td:first-child code { color: var(--ink); }
.role { float: right; font-size: .8rem; color: var(--soft); border: 1px solid var(--line); border-radius: 99px;
  padding: .05rem .6rem; }
@media (max-width: 34rem) { td:first-child { width: 6.2rem; } }
"""

_EXAMPLE = """curl -X POST -H "Authorization: Bearer $KEY" localhost:8000/v1/experiments \\
     -d '{"name": "button", "arms": ["blue", "green", "red"]}'
curl -X POST -H "Authorization: Bearer $KEY" localhost:8000/v1/experiments/button/decisions \\
     -d '{"id": "visit-17"}'
curl -X POST -H "Authorization: Bearer $KEY" localhost:8000/v1/experiments/button/outcomes \\
     -d '{"decision": "visit-17", "reward": 1}'"""


def page(document: dict[str, Any]) -> str:
    """The page of a document."""
    info = document["info"]
    operations = [
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    errors = [
        f'<tr id="{code}"><td>{status} <code>{code}</code></td><td>{escape(meaning)}</td></tr>'
        for code, (status, meaning) in sorted(CODES.items(), key=lambda item: item[0] in _EVERYWHERE)
    ]
    types = [_type(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(info["title"])} {escape(info["version"])}</title><style>{_STYLE}</style></head><body>
<h1>{escape(info["title"])} <span class="soft">{escape(info["version"])}</span></h1>
<p>{escape(info["description"])}</p>
<p class="soft">For programs: <a href="openapi.json">openapi.json</a>. Beside each operation stands the role
that a key needs; an admin key may do everything.</p>
<pre>{escape(_EXAMPLE)}</pre>
<h2>Operations</h2>
{"".join(operations)}
<h2>Errors</h2>
<section><p>Every error is a <a href="#Problem">Problem</a>. Those in the lower part can come from any operation; with
503 comes <code>Retry-After</code>.</p><table>{"".join(errors)}</table></section>
<h2>Types</h2>
{"".join(types)}
</body></html>
"""


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = []
    for parameter in operation.get("parameters", []):
        about = parameter.get("description") or parameter["schema"].get("description", "")
        allowed = parameter["schema"].get("enum")
        words = f" ({', '.join(allowed)}; default {parameter['schema']['default']})" if allowed else ""
        rows.append((f"{parameter['in']}: {parameter['name']}", escape(about + words)))
    if body := operation.get("requestBody"):
        rows.append(("body", _shown(body["content"]["application/json"]["schema"])))
    for status, response in operation["responses"].items():
        shown = ", ".join(
            _shown(content["schema"]) if "schema" in content else escape(media)
            for media, content in response["content"].items()
        )
        if int(status) < 300:
            rows.append((f"answer {status}", shown))
    codes = [code for code in operation["x-codes"] if code not in _EVERYWHERE]
    if codes:
        rows.append(("errors", ", ".join(f'<a href="#{code}">{code}</a>' for code in codes)))
    table = "".join(f"<tr><td>{escape(name)}</td><td>{what}</td></tr>" for name, what in rows)
    return (
        f'<section id="{operation["operationId"]}"><span class="role">{escape(operation["x-role"] or "no key")}</span>'
        f'<h3><span class="{method}">{method.upper()}</span> {escape(path)}</h3>'
        f"<p>{escape(operation['summary'])}</p><table>{table}</table></section>"
    )


def _type(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", []))
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_shown(kind)}"
        f"{'' if field in required else _default(kind)}</td></tr>"
        for field, kind in schema.get("properties", {}).items()
    )
    about = escape(schema.get("description", ""))
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3><p>{about}</p><table>{rows}</table></section>'


def _default(kind: dict[str, Any]) -> str:
    if "default" not in kind:
        return ' <span class="soft">· may be absent</span>'
    return f' <span class="soft">· default {escape(json.dumps(kind["default"]))}</span>'


def _shown(schema: dict[str, Any]) -> str:
    """A schema in a line."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        said = " or ".join(_shown(each) for each in schema["anyOf"])
    elif "enum" in schema:
        said = " or ".join(f"<code>{escape(json.dumps(each))}</code>" for each in schema["enum"])
    elif schema.get("type") == "array":
        said = f"list of {_shown(schema.get('items', {}))}{_range(schema, 'minItems', 'maxItems')}"
    elif schema.get("type") == "object":
        said = f"object of {_shown(schema.get('additionalProperties') or {})}"
    else:
        said = escape(str(schema.get("type", "anything")))
        said += _range(schema, "minimum", "maximum") + _range(schema, "minLength", "maxLength", " characters")
        if "exclusiveMinimum" in schema:
            said += f" above {schema['exclusiveMinimum']}"
    about = schema.get("description")
    return f'{said} <span class="soft">{escape(about)}</span>' if about else said


def _range(schema: dict[str, Any], low: str, high: str, unit: str = "") -> str:
    if low in schema and high in schema:
        return f", {schema[low]:,} to {schema[high]:,}{unit}"
    return f", at most {schema[high]:,}{unit}" if high in schema else ""
