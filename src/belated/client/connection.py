"""What both clients need to reach the service: its address, the key, the proxy of the environment."""

import os
from urllib.request import getproxies, proxy_bypass

import httpx

from belated.errors import InvalidValue, check_positive

TIMEOUT_SECONDS = 30.0


def address(url: str) -> httpx.URL:
    """Return the address of the service, or raise."""
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidValue(f"url is {url!r}: {error}", "url") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise InvalidValue(f"url is {url!r}; one such as http://localhost:8000 or https://example.com is needed", "url")
    return found


def headers(key: str | None) -> dict[str, str]:
    """Return the headers of every request. Without a key, BELATED_KEY of the environment is the key."""
    key = key or os.environ.get("BELATED_KEY")
    if not key:
        raise InvalidValue("no key is given, and BELATED_KEY is not set; `belated keys create` makes keys", "key")
    if not key.isascii() or not key.isprintable() or " " in key:  # the key itself stays out of the message
        raise InvalidValue("key has a space, a line break or another character that no key has", "key")
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


def proxy(url: httpx.URL) -> str | None:
    """Return the proxy that the environment names for an address. httpx leaves this to those who give a transport."""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if not found or proxy_bypass(url.netloc.decode("ascii")):
        return None
    return found if "://" in found else f"http://{found}"


def timeouts(seconds: float) -> httpx.Timeout:
    """Return the timeouts of a request."""
    return httpx.Timeout(check_positive("timeout", seconds))


def endless(timeouts: httpx.Timeout) -> httpx.Timeout:
    """Return the timeouts of a stream that may be silent for long."""
    return httpx.Timeout(connect=timeouts.connect, read=None, write=timeouts.write, pool=timeouts.pool)
