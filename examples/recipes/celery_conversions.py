"""A Celery task that reports conversions: the shop calls it and forgets it, the task tries until it is done.

pip install 'celery[redis]' 'belated[client]'
BELATED_KEY=... celery -A celery_conversions worker       # the key needs the role decide

report_conversion.delay("visit-17")                       # in the shop, when something is bought
"""

import os
from functools import cache

from celery import Celery

from belated.client import Client, ServiceError, ServiceUnavailable

EXPERIMENT = "button"
app = Celery("conversions", broker=os.environ.get("BROKER", "redis://127.0.0.1:6379/0"))


@cache
def client() -> Client:
    """Return the client of this process. It is made when it is first needed: after the worker has forked."""
    return Client(os.environ.get("BELATED_URL", "http://127.0.0.1:8000"), timeout=5.0, retry_seconds=0)


@app.task(
    autoretry_for=(ServiceUnavailable,),
    retry_backoff=10,  # after 10, 20, 40, … seconds, at most an hour: 100 times are some four days
    retry_backoff_max=3600,
    max_retries=100,
    acks_late=True,  # a worker that dies has not done it: another does, and the service takes it once
)
def report_conversion(visit: str, reward: float = 1.0) -> str:
    """Report the outcome of a visit; return the receipt, or why there is none."""
    try:
        return client().observe(EXPERIMENT, visit, reward=reward).receipt
    except ServiceUnavailable:
        raise
    except ServiceError as error:
        if error.code in ("unknown_decision", "conflict"):  # not decided by the service, or reported otherwise before
            return error.code
        raise
