"""What forms do: create an experiment, and change one by the same commands as the API."""

from collections.abc import Callable

from belated.api.types import Experiment, NewArm
from belated.ledger.changing import AddArm, MoveArm, SetLimits
from belated.ledger.commands import Change, Command
from belated.ledger.events import Status
from belated.service import handlers
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages.experiment import limits_text
from belated.service.pages.forms import checked, learner_choices, limits_of, new_experiment
from belated.service.pages.visit import Visit, address, page, redirect
from belated.service.views import unwrap


async def show_new(visit: Visit) -> Response:
    """Return the form for a new experiment."""
    return page("new.html", visit, form={}, problem="", field="", choices=learner_choices())


async def create(visit: Visit) -> Response:
    """Create an experiment, or show the form again with what is wrong."""
    given = {field: values[0].strip() for field, values in visit.fields.items()}
    try:
        body = new_experiment(given)
        await handlers.create(visit.request(body))
    except ApiError as error:
        message, field = error.problem.message, error.problem.field or ""
        choices = learner_choices()
        return page("new.html", visit, error.status, form=given, problem=message, field=field, choices=choices)
    return redirect(f"{address(body.name)}?done=create")


async def change(visit: Visit) -> Response:
    """Change an experiment as a form asks."""
    word = visit.scope["path"].rpartition("/")[2]
    look = await visit.service.look(visit.name)
    await visit.service.run(WORDS[word](visit, look.experiment), 1, lambda answer: unwrap(answer) and None)
    return redirect(f"{address(visit.name)}?done={word}")


def _status(status: Status) -> Callable[[Visit, Experiment], Command]:
    return lambda visit, shown: Change(visit.name, status, key=visit.caller.number)


def _archive(visit: Visit, shown: Experiment) -> Command:
    if visit.given("sure") != "yes":
        raise ApiError("invalid", "archiving cannot be undone; tick the box to confirm it", "sure")
    return Change(visit.name, Status.ARCHIVED, key=visit.caller.number)


def _add_arm(visit: Visit, shown: Experiment) -> Command:
    arm = checked({"arm": visit.typed("arm")}, NewArm).arm
    if str(arm) in (str(each.arm) for each in shown.arms):
        raise ApiError("invalid", f"there is an arm {arm!r} already; one that was retired can be restored", "arm")
    return AddArm(visit.name, arm, key=visit.caller.number)


def _move_arm(retire: bool) -> Callable[[Visit, Experiment], Command]:
    return lambda visit, shown: MoveArm(visit.name, visit.given("arm"), retire, key=visit.caller.number)


def _limits(visit: Visit, shown: Experiment) -> Command:
    if visit.given("before") != limits_text(shown.limits):
        raise ApiError("invalid", "the limits were changed meanwhile, so nothing was set; look at them again", "before")
    labels = {str(each.arm): each.arm for each in shown.arms}
    return SetLimits(visit.name, limits_of(visit.fields, labels), key=visit.caller.number)


WORDS: dict[str, Callable[[Visit, Experiment], Command]] = {
    "pause": _status(Status.PAUSED),
    "resume": _status(Status.ACTIVE),
    "archive": _archive,
    "add-arm": _add_arm,
    "retire-arm": _move_arm(True),
    "restore-arm": _move_arm(False),
    "limits": _limits,
}
"""What can be done to an experiment, by the last word of the address."""
