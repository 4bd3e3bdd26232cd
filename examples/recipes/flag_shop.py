"""A page that works whether the service does or not: a WSGI app with a flag.

    pip install 'belated[client]'
    BELATED_KEY=... python flag_shop.py                       # http://127.0.0.1:8080; the key needs the role decide

The same visitor sees the same button; `/buy?visit=…` is a purchase.
"""

import logging
import os
from collections.abc import Iterable
from html import escape
from urllib.parse import parse_qs, quote
from uuid import uuid4
from wsgiref.simple_server import make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from belated.client import Flag

flag = Flag(os.environ.get("BELATED_URL", "http://127.0.0.1:8000"), "button", default="blue", timeout=0.3)


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Show a button, or take an order."""
    visit = parse_qs(environ["QUERY_STRING"]).get("visit", [str(uuid4())])[0]
    if environ["PATH_INFO"] == "/buy":
        flag.observe(visit, reward=1.0)
        text = "Thank you."
    else:
        button = escape(str(flag.decide(visit)))
        text = f'<a style="background: {button}" href="/buy?visit={quote(visit)}">Buy</a>'
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
    return [text.encode()]


def main() -> None:
    logging.basicConfig()
    with make_server("127.0.0.1", 8080, app) as server, flag:
        server.serve_forever()


if __name__ == "__main__":
    main()
