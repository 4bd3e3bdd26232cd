"""Families of things that words can name: environments and delays, each known by its class name in small letters."""

import inspect
from typing import Any, ClassVar, Self

from belated import specs
from belated.errors import unknown


class Family:
    """The base of a family; subclasses enter it by being defined."""

    kind: ClassVar[str]
    members: ClassVar[dict[str, type["Family"]]]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "kind" in cls.__dict__:
            cls.members = {}
        elif not cls.__name__.startswith("_"):
            cls.members[cls.__name__.lower()] = cls

    @property
    def title(self) -> str:
        """What tables and figures call it."""
        return repr(self)

    @classmethod
    def adopt(cls, stranger: Any) -> Self:
        """A member that stands for an object of somebody else's class, with a `fill` of its own."""
        raise ValueError(f"{stranger!r} is no {cls.kind}")

    @classmethod
    def find(cls, wanted: Any) -> Self:
        """A member from words such as `pareto:shape=1,scale=10`, from a table {name = "pareto", ...}, or from
        itself.
        """
        if isinstance(wanted, cls):
            return wanted
        if callable(getattr(wanted, "fill", None)) and not isinstance(wanted, type):
            return cls.adopt(wanted)
        if isinstance(wanted, str):
            name, settings = specs.parse(wanted)
        elif isinstance(wanted, dict) and isinstance(wanted.get("name"), str):
            name, settings = wanted["name"], {key: value for key, value in wanted.items() if key != "name"}
        else:
            raise ValueError(
                f"{wanted!r} is no {cls.kind}; words ({', '.join(sorted(cls.members))}, with settings behind a colon), "
                "a table with a name, or an object made from one of its classes is needed"
            )
        if name not in cls.members:
            raise unknown(cls.kind, name, cls.members)
        member = cls.members[name]
        allowed = inspect.signature(member).parameters
        for key in settings:
            if key not in allowed:
                raise unknown(f"setting of {name}", key, allowed)
        missing = [key for key, slot in allowed.items() if slot.default is slot.empty and key not in settings]
        if missing:
            raise ValueError(f"{cls.kind} {name!r} needs {', '.join(missing)}")
        try:
            made = member(**settings)
        except TypeError as error:
            raise ValueError(f"{cls.kind} {wanted!r}: {error}") from error
        if not isinstance(made, cls):
            raise TypeError(f"{name} made {made!r}, not a {cls.kind}")
        return made
