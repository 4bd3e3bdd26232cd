"""Words for things: `pareto:shape=1,scale=10` names one of a family and sets its parameters.

Values are numbers, true, false, words (in parentheses where they have settings of their own), or lists in square
brackets. The same words serve on the command line, in TOML
files and in Python.
"""

import ast
from typing import Any


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Split `name:key=value,key=value` into the name and its settings."""
    name, _, rest = text.strip().partition(":")
    settings: dict[str, Any] = {}
    for part in _parts(rest) if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and key.isidentifier() and value):
            raise ValueError(f"{part!r} in {text!r} is not of the form key=value")
        if key in settings:
            raise ValueError(f"{key} is set twice in {text!r}")
        settings[key] = _value(value)
    return name.strip(), settings


def _parts(text: str) -> list[str]:
    """Split at commas, except within brackets."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _value(text: str) -> Any:
    if text.startswith("(") and text.endswith(")"):
        return text[1:-1]  # words within words: dropout:share=0.1,others=(pareto:shape=1,scale=10)
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if text.startswith("[") and text.endswith("]"):
            return [_value(part.strip()) for part in _parts(text[1:-1])]  # words among numbers
        return text
