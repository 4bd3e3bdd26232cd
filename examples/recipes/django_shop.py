"""Django views that decide which button a visitor sees, and observe what comes of it.

    pip install django 'belated[client]'
    BELATED_KEY=... python django_shop.py runserver 8080      # the key needs the role decide

A project of one file; in yours, take the client, the views and the paths. The experiment is made beforehand;
docs/recipes.md says how.
"""

import logging
import os
import sys
from functools import cache
from uuid import uuid4

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_GET, require_POST

from belated.client import Client, ServiceError

EXPERIMENT, DEFAULT = "button", "blue"
log = logging.getLogger(__name__)

if not settings.configured:
    settings.configure(
        SECRET_KEY=os.environ.get("SECRET_KEY") or os.urandom(32).hex(),
        ALLOWED_HOSTS=["127.0.0.1", "localhost", "testserver"],
        ROOT_URLCONF=__name__,
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    )
    django.setup()

PAGE = """
<form method="post" action="/buy/">{% csrf_token %}<button style="background: {{ button }}">Buy</button></form>
"""


@cache
def client() -> Client:
    """Return the client of this process, whose threads share it. It is made when it is first needed, after any fork."""
    return Client(os.environ.get("BELATED_URL", "http://127.0.0.1:8000"), timeout=0.5, retry_seconds=0.5)


@require_GET
@csrf_protect
def page(request: HttpRequest) -> HttpResponse:
    """Show a button: the same to a visitor who comes back."""
    visit = request.get_signed_cookie("visit", default=None) or str(uuid4())
    try:
        button, decided = client().decide(EXPERIMENT, visit).arm, True
    except ServiceError:  # away, or paused: no cookie, so that nothing is reported for it
        button, decided = DEFAULT, False
    response = HttpResponse(engines["django"].from_string(PAGE).render({"button": button}, request))
    if decided:
        response.set_signed_cookie("visit", visit, max_age=7 * 86400, httponly=True, samesite="Lax")
    return response


@require_POST
@csrf_protect
def buy(request: HttpRequest) -> HttpResponse:
    """Take an order, and tell the service, which takes it once however often it is told."""
    visit = request.get_signed_cookie("visit", default=None)
    if visit is not None:
        try:
            client().observe(EXPERIMENT, visit, reward=1.0)
        except ServiceError as error:  # the order itself stands; a job can report it later, as cron_conversions.py does
            log.warning("the purchase of %s was not reported: %s", visit, error)
    return HttpResponse("Thank you.")


urlpatterns = [path("", page), path("buy/", buy)]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
