"""Files that pages load: styles, scripts, uPlot. They are read once, and browsers keep them.

Their address has a hash of all of them, so that after an upgrade no page runs a script of the version before.
"""

from functools import cache
from hashlib import sha256
from importlib.resources import files

from belated.service.errors import ApiError
from belated.service.http import Response

FIRST = "/static/"
KINDS = {"css": b"text/css; charset=utf-8", "js": b"text/javascript; charset=utf-8"}
NAMES = {
    "style.css": "style.css",
    "dashboard.css": "static/dashboard.css",
    "charts.js": "static/charts.js",
    "experiment.js": "static/experiment.js",
    "forms.js": "static/forms.js",
    "overview.js": "static/overview.js",
    "sign_in.js": "static/sign_in.js",
    "simulate.js": "static/simulate.js",
    "uplot/uPlot.min.css": "static/uplot/uPlot.min.css",
    "uplot/uPlot.iife.min.js": "static/uplot/uPlot.iife.min.js",
}
"""Name in the address -> file among the templates."""
KEPT = b"max-age=31536000, immutable"
NOT_KEPT = b"no-store"


def answer(path: str) -> Response:
    """Return a file; one that another version of the service has asked for is not kept."""
    version, _, name = path.removeprefix(FIRST).partition("/")
    if name not in NAMES:
        raise ApiError("not_found", f"there is no file {path[:100]}")
    kept = KEPT if version == _version() else NOT_KEPT
    headers = {b"cache-control": kept, b"x-content-type-options": b"nosniff"}
    return Response(_content(name), kind=KINDS[name.rpartition(".")[2]], headers=headers)


def folder() -> str:
    """Return where the files are, as the pages of this version ask for them."""
    return FIRST + _version()


@cache
def _version() -> str:
    return sha256(b"".join(_content(name) for name in NAMES)).hexdigest()[:12]


@cache
def _content(name: str) -> bytes:
    return files("belated.templates").joinpath(NAMES[name]).read_bytes()
