"""HTML pages: Jinja2 templates that share one look, each rendered into a page that needs no other file."""

from functools import cache
from typing import TYPE_CHECKING, Any

from belated.errors import needs_extra

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, /, **context: Any) -> str:
    """Return the page that a template makes of a context.

    All text of the context is escaped. A name that the template uses and the context lacks is an error.
    """
    return _environment().get_template(name).render(context)


@cache
def _environment() -> "Environment":
    with needs_extra("an HTML page", "league,service"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    return Environment(
        loader=PackageLoader("belated", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
