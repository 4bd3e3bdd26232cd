"""Files that pages load: styles, scripts, uPlot. They are read once, and browsers keep them for an hour."""

from functools import cache
from importlib.resources import files

from belated.service.errors import ApiError
from belated.service.http import Response

KINDS = {"css": b"text/css; charset=utf-8", "js": b"text/javascript; charset=utf-8"}
NAMES = {
    "style.css": "style.css",
    "dashboard.css": "static/dashboard.css",
    "dashboard.js": "static/dashboard.js",
    "uplot/uPlot.min.css": "static/uplot/uPlot.min.css",
    "uplot/uPlot.iife.min.js": "static/uplot/uPlot.iife.min.js",
}
"""Name in the address -> file among the templates."""


def answer(name: str) -> Response:
    """Return a file."""
    if name not in NAMES:
        raise ApiError("not_found", f"there is no file {name[:100]}")
    headers = {b"cache-control": b"max-age=3600", b"x-content-type-options": b"nosniff"}
    return Response(_content(name), kind=KINDS[name.rpartition(".")[2]], headers=headers)


@cache
def _content(name: str) -> bytes:
    return files("belated.templates").joinpath(NAMES[name]).read_bytes()
