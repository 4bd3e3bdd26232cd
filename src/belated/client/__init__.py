"""Clients of the service, for programs that wait and for programs that await.

    with Client("http://localhost:8000", key) as client:
        decision = client.decide("button")
        client.observe("button", decision, reward=1.0)

Every decision has an id before it is asked for, so that a request without an answer can be sent again as it was: the
service answers it once. If the service is restarted, busy or cannot be reached, a client pauses and sends the request
again, for up to `retry_seconds`. A `Flag` waits for nothing: it falls back to a default arm.
"""

from belated.errors import needs_extra

with needs_extra("the client", "client"):
    from belated.client.async_client import AsyncClient
    from belated.client.client import Client
    from belated.client.errors import ServiceError, ServiceUnavailable
    from belated.client.flag import Flag, FlagCounts

__all__ = ["AsyncClient", "Client", "Flag", "FlagCounts", "ServiceError", "ServiceUnavailable"]
