"""What is wrong with a request's body: which field, what stands there, what is needed.

msgspec decodes bodies and refuses those that do not fit their type, in a sentence that is hard to take apart. So a body
that was refused is compared with its type once more, here, to name the field and to say what it needs in our words.
"""

import re
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from belated.api.types import shown

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*").fullmatch


class Fault(NamedTuple):
    """The first thing that is wrong."""

    message: str
    field: str
    """Its path: `arms[1]`, `missing.deadline`; empty for the body as a whole."""


def find_fault(body: bytes, kind: Any) -> Fault | None:
    """Return what is wrong with a body that should be of a type, or None where nothing is found."""
    try:
        value = msgspec.json.decode(body)
        return _fault(value, inspect.type_info(kind), "")
    except Exception:  # the body is refused in any case: what is left is to say why, as well as we can
        return None


def needed(kind: inspect.Type) -> str:
    """Return what a type takes, as people say it."""
    if isinstance(kind, inspect.Metadata):
        said = (kind.extra or {}).get("needs")
        return str(said) if said else needed(kind.type)
    if isinstance(kind, inspect.UnionType):
        said = [needed(each) for each in kind.types if not isinstance(each, inspect.NoneType)]
        return " or ".join(dict.fromkeys(said))
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f'"{value}"' for value in kind.values)
    if isinstance(kind, inspect.StructType):
        return f"an object with {', '.join(field.encode_name for field in kind.fields)}"
    if isinstance(kind, inspect.DictType):
        return "an object"
    if isinstance(kind, inspect.ListType):
        return f"a list{_range(' of', kind.min_length, kind.max_length, ' entries')}"
    if isinstance(kind, inspect.StrType):
        return f"a text{_range(' of', kind.min_length, kind.max_length, ' characters')}"
    if isinstance(kind, inspect.IntType):
        return f"a whole number{_range(' from', kind.ge, kind.le)}"
    if isinstance(kind, inspect.FloatType):
        if kind.gt is not None:
            return f"a number above {kind.gt:g}" + (f", at most {kind.le:,}" if kind.le is not None else "")
        return f"a number{_range(' from', kind.ge, kind.le)}"
    return "another value"


def _range(word: str, low: Any, high: Any, unit: str = "") -> str:
    if low is not None and high is not None:
        return f"{word} {low:,} to {high:,}{unit}"
    if low is not None:
        return f"{word} at least {low:,}{unit}"
    return f"{word} at most {high:,}{unit}" if high is not None else ""


def _fault(value: Any, kind: inspect.Type, path: str) -> Fault | None:
    plain = kind.type if isinstance(kind, inspect.Metadata) else kind
    if isinstance(plain, inspect.UnionType):
        return _union_fault(value, plain, kind, path)
    if not _is_of(value, plain):
        return _wrong(value, kind, path)
    if isinstance(plain, inspect.StructType):
        return _struct_fault(value, plain, path)
    if isinstance(plain, inspect.ListType):
        if not _within(len(value), plain.min_length, plain.max_length):
            return _wrong(value, kind, path)
        return _first(_fault(each, plain.item_type, f"{path}[{k}]") for k, each in enumerate(value))
    if isinstance(plain, inspect.DictType):
        return _first(_fault(each, plain.value_type, below(path, key)) for key, each in value.items())
    return None


def _union_fault(value: Any, union: inspect.UnionType, kind: inspect.Type, path: str) -> Fault | None:
    """Return the fault of the member that a value comes closest to: the one of its own kind, object or list."""
    faults = [_fault(value, each, path) for each in union.types]
    if None in faults:
        return None
    inner = [fault for fault in faults if fault is not None and fault.field != path]
    if inner:
        return inner[0]
    like = [each for each in union.types if _is_like(value, each)]
    return _wrong(value, like[0] if len(like) == 1 else kind, path)


def _struct_fault(value: dict[str, Any], struct: inspect.StructType, path: str) -> Fault | None:
    fields = {field.encode_name: field for field in struct.fields}
    for key in value:
        if key not in fields and struct.forbid_unknown_fields:
            return Fault(f"unknown field {shown(key)}; allowed is {', '.join(fields)}", below(path, key))
    for name, field in fields.items():
        if field.required and name not in value:
            return Fault(f"{below(path, name)} is missing; {needed(field.type)} is needed", below(path, name))
    return _first(_fault(value[name], field.type, below(path, name)) for name, field in fields.items() if name in value)


def _is_like(value: Any, kind: inspect.Type) -> bool:
    """Return whether a value is of the same kind, whatever its size: a text, a number, a list, an object."""
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    return (
        (isinstance(kind, inspect.StrType) and isinstance(value, str))
        or (isinstance(kind, inspect.IntType) and isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(kind, inspect.FloatType) and isinstance(value, int | float) and not isinstance(value, bool))
        or (isinstance(kind, inspect.ListType) and isinstance(value, list))
        or (isinstance(kind, inspect.StructType | inspect.DictType) and isinstance(value, dict))
    )


def _is_of(value: Any, kind: inspect.Type) -> bool:
    """Return whether a value fits a type; of lists and objects, without looking into them."""
    if isinstance(kind, inspect.LiteralType):
        return value in kind.values
    if isinstance(kind, inspect.NoneType):
        return value is None
    if not _is_like(value, kind):
        return False
    if isinstance(kind, inspect.StrType):
        return _within(len(value), kind.min_length, kind.max_length) and bool(re.search(kind.pattern or "", value))
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _within(value, kind.ge, kind.le) and (kind.gt is None or value > kind.gt)
    return True


def _within(size: float, low: float | None, high: float | None) -> bool:
    return (low is None or size >= low) and (high is None or size <= high)


def _wrong(value: Any, kind: inspect.Type, path: str) -> Fault:
    return Fault(f"{path or 'the body'} is {shown(value)}; {needed(kind)} is needed", path)


def below(path: str, name: str) -> str:
    """Return the path of a field within an object: `missing.loss`; quoted where it could be taken for a path itself."""
    if not _PLAIN(name):
        return f"{path}[{shown(name)}]"
    return f"{path}.{name}" if path else name


def _first(faults: Any) -> Fault | None:
    return next((fault for fault in faults if fault is not None), None)
