"""Clients of the service, for programs that wait and for programs that await.

    with Client("http://localhost:8000", key) as client:
        decision = client.decide("button")
        client.observe("button", decision, reward=1.0)

Every decision has an id before it is asked for, so that a request that got no answer is sent again as it was: the
service answers it once. Where the service is restarted or busy, a client waits and asks again until its patience ends.
"""

from belated.client.async_client import AsyncClient
from belated.client.client import Client
from belated.client.requests import ServiceError, ServiceUnavailable

__all__ = ["AsyncClient", "Client", "ServiceError", "ServiceUnavailable"]
