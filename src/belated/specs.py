"""Specs: `pareto:shape=1,scale=10` names a thing and its settings, on the command line, in TOML files and in Python.

Values are numbers, `true`, `false`, words, lists, or specs in parentheses:
`dropout:share=0.1,others=(pareto:shape=1,scale=10)`. A list is written with or without square brackets:
`means=[0.4,0.5]` or `means=0.4,0.5`. A `Registry` turns specs into objects: environments and delays each have one.
`module:NAME` loads a thing of your own.
"""

import ast
import difflib
import inspect
import re
import sys
import traceback
from collections.abc import Container, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from belated.errors import InvalidValue, unknown


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Split `name:key=value,key=value` into the name and its settings."""
    name, _, rest = text.strip().partition(":")
    settings: dict[str, Any] = {}
    for part in _settings(_parts(rest)) if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and key.isidentifier() and value):
            raise InvalidValue(f"{part!r} in {text!r} is not of the form key=value")
        if key in settings:
            raise InvalidValue(f"{key} is set twice in {text!r}")
        settings[key] = _value(value)
    return name.strip(), settings


def _settings(parts: list[str]) -> list[str]:
    """Join what belongs to the setting before it, in brackets: `a=1`, `2`, `b=3` becomes `a=[1,2]`, `b=3`."""
    settings: list[list[str]] = []
    for part in parts:
        is_value = part.strip() and ("=" not in part or part.strip()[0] in "[(")
        if not is_value or not settings:
            settings.append([part])
        else:
            settings[-1].append(part)
    listed = []
    for first, *more in settings:
        key, _, value = first.partition("=")
        listed.append(f"{key}=[{','.join([value, *more])}]" if more else first)
    return listed


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
        return text[1:-1]  # a spec within a spec: dropout:share=0.1,others=(pareto:shape=1,scale=10)
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if text.startswith("[") and text.endswith("]"):
            return [_value(part.strip()) for part in _parts(text[1:-1])]  # words among numbers
        return text


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def seconds(text: str) -> float | None:
    """Return a time as people write it, 90d, 2w, 12h, 30m or 45s, in seconds; None where it is not written so."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    return float(found[1]) * _SECONDS[found[2]] if found else None


def duration(name: str, given: float | str, in_seconds: bool) -> float:
    """Return a time in the unit of a log: a number as it is, 7d in seconds; raise where the log has another unit.

    A text without a unit is refused where the log is in seconds: 10 may be meant to be days.
    """
    if not isinstance(given, str):
        return given
    found = seconds(given)
    if found is not None:
        if in_seconds:
            return found
        raise InvalidValue(f"{name} is {given!r}, but the log has no dates; a number in its own unit is needed", name)
    try:
        number = float(given)
    except ValueError:
        raise InvalidValue(f"{name} is {given!r}; a time such as 7d, 12h, 30m or 45s is needed", name) from None
    if in_seconds:
        raise InvalidValue(
            f"{name} is {given!r} without a unit, and the log has dates; a time such as {given}d or {given}h is needed",
            name,
        )
    return number


def is_reference(text: str, known: Container[str] = ()) -> bool:
    """Return whether a text is of the form `module:NAME`, which names a thing of the user's own.

    A text that begins with a known name is a spec: `robust:delay_constant` lacks a value.
    """
    module, colon, name = text.strip().partition(":")
    form = bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return form and module not in known


def load(reference: str, known: Iterable[str] = ()) -> Any:
    """Return the object NAME of a `module:NAME`; the module may be a file in the current folder.

    Where there is no such module, the error suggests the nearest of the known names.
    """
    module, _, name = reference.strip().partition(":")
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        loaded = import_module(module)
    except Exception as error:
        near = difflib.get_close_matches(module, known, n=1) if isinstance(error, ModuleNotFoundError) else []
        hint = f". Did you mean {near[0]!r}? Its settings are written key=value" if near else ""
        raise InvalidValue(f"{reference!r} cannot be loaded: {_cause(error)}{hint}") from error
    finally:
        if added:
            sys.path.remove(here)
    if not hasattr(loaded, name):
        public = [each for each in vars(loaded) if not each.startswith("_")]
        raise unknown(f"name in module {module}", name, public)
    return getattr(loaded, name)


def _cause(error: Exception) -> str:
    """Return why a module could not be imported, with the place in it where it is the module's own fault."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


class Registry:
    """The base of environments and of delays. A subclass is registered when it is defined, under its name in small
    letters or under its `word`, unless `registered` is False.
    """

    kind: ClassVar[str]
    members: ClassVar[dict[str, type["Registry"]]]
    word: ClassVar[str]

    def __init_subclass__(cls, registered: bool = True, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "kind" in cls.__dict__:
            cls.members = {}
        elif registered:
            cls.members[cls.__dict__.get("word", cls.__name__.lower())] = cls

    @property
    def title(self) -> str:
        """What tables and figures call it."""
        return repr(self)

    @classmethod
    def wrap(cls, thing: Any) -> Self:
        """Return a member that stands for an object of another class that has a `fill`."""
        raise InvalidValue(f"{thing!r} is no {cls.kind}")

    @classmethod
    def find(cls, wanted: Any) -> Self:
        """Return the member for a spec, for `module:NAME`, for a table {name = "pareto", ...}, or for an object."""
        if isinstance(wanted, str) and is_reference(wanted, cls.members):
            return cls._own(wanted)
        if isinstance(wanted, cls):
            return wanted
        if callable(getattr(wanted, "fill", None)) and not isinstance(wanted, type):
            return cls.wrap(wanted)
        if isinstance(wanted, str):
            name, settings = parse(wanted)
        elif isinstance(wanted, dict) and isinstance(wanted.get("name"), str):
            name, settings = wanted["name"], {key: value for key, value in wanted.items() if key != "name"}
        else:
            raise InvalidValue(
                f"{wanted!r} is no {cls.kind}; a spec ({', '.join(sorted(cls.members))}, with settings behind a colon),"
                " module:NAME, a table with a name, or an object with `fill` is needed"
            )
        return cls.make(name, settings, wanted)

    @classmethod
    def _own(cls, reference: str) -> Self:
        """Return the member that a `module:NAME` names: an object, or a class that needs no arguments."""
        thing = load(reference, cls.members)
        if isinstance(thing, type):
            try:
                thing = thing()
            except TypeError as error:
                raise InvalidValue(f"{reference!r} cannot be made without arguments: {error}") from error
        if isinstance(thing, str) or (isinstance(thing, Registry) and not isinstance(thing, cls)):
            raise InvalidValue(f"{reference!r} is {thing!r}, which is no {cls.kind}")
        if not isinstance(thing, cls) and not callable(getattr(thing, "fill", None)):
            raise InvalidValue(f"{reference!r} is {thing!r}, which is no {cls.kind}; a method `fill` is needed")
        return cls.find(thing)

    @classmethod
    def make(cls, name: str, settings: dict[str, Any], wanted: Any) -> Self:
        """Return the member of that name with these settings; `wanted` is what errors quote."""
        if name not in cls.members:
            raise unknown(cls.kind, name, cls.members)
        member = cls.members[name]
        allowed = inspect.signature(member).parameters
        for key in settings:
            if key not in allowed:
                raise unknown(f"setting of {name}", key, allowed)
        missing = [key for key, slot in allowed.items() if slot.default is slot.empty and key not in settings]
        if missing:
            raise InvalidValue(f"{cls.kind} {name!r} needs {', '.join(missing)}")
        try:
            made = member(**settings)
        except TypeError as error:
            raise InvalidValue(f"{cls.kind} {wanted!r}: {error}") from error
        if not isinstance(made, cls):
            raise TypeError(f"{name} made {made!r}, not a {cls.kind}")
        return made
