"""Commands that change an experiment while it runs: its arms, the limits of their shares; and what went on without
it.
"""

from typing import ClassVar

from belated.api.types import ShareLimits
from belated.errors import InvalidValue
from belated.ledger.commands import Answer, Command, Refused, View, Work
from belated.ledger.events import Event, Kind, Status


class _Changing(Command, frozen=True):
    """The base. What an archived experiment or a learner refuses is answered as a refusal, and nothing has changed."""

    fields: ClassVar[tuple[str, ...]] = ("arm",)
    """Of the request: a refusal names one of them."""

    def answer(self, work: Work) -> Answer:
        if work.status == Status.ARCHIVED:
            return Refused("archived", f"experiment {work.name!r} is archived, for good")
        try:
            event = self.event(work)
        except InvalidValue as error:
            return Refused("invalid", str(error), error.field if error.field in self.fields else self.fields[0])
        if isinstance(event, Refused):
            return event
        if event is not None:
            work.events.append(self._signed(event))
        return View(work.record, work.status, work.state)

    def event(self, work: Work) -> Event | Refused | None:
        """Change the state; return the event, None where it is as it should be already, or why it cannot be done."""
        raise TypeError(f"{type(self).__name__} changes nothing")


class AddArm(_Changing, frozen=True):
    """Let a new arm take part."""

    arm: str | int

    def event(self, work: Work) -> Event | Refused | None:
        state = work.state
        arm = state.place(self.arm)
        if arm is None and state.place(str(self.arm)) is None:
            return state.change_arm(Kind.ADD_ARM, len(state.decisions), work.now, self.arm)
        if arm is None or state.label(arm) != self.arm:
            return Refused("invalid", f"there is an arm that reads {str(self.arm)!r}; labels must differ", "arm")
        if not state.bandit.roster.has(arm):
            return Refused("retired", f"arm {self.arm!r} was retired before: restore it instead", "arm")
        return None


class MoveArm(_Changing, frozen=True):
    """Retire an arm, or restore one that was retired."""

    arm: str
    """Its label; as text, where that is a number."""
    retire: bool

    def event(self, work: Work) -> Event | Refused | None:
        state = work.state
        arm = state.place(self.arm)
        if arm is None:
            return Refused("unknown_arm", f"there is no arm {self.arm!r} in experiment {work.name!r}", "arm")
        if state.bandit.roster.has(arm) != self.retire:
            return None
        return state.change_arm(Kind.RETIRE_ARM if self.retire else Kind.RESTORE_ARM, arm, work.now)


class SetLimits(_Changing, frozen=True):
    """Limit the shares of arms."""

    limits: ShareLimits
    fields: ClassVar[tuple[str, ...]] = ("arms", "holdout")

    def event(self, work: Work) -> Event | Refused | None:
        if self.limits == (work.state.limits or ShareLimits()):
            return None
        return work.state.limit(self.limits, work.now)


class ReportFallbacks(_Changing, frozen=True):
    """Count decisions that were made without the service, once for each id."""

    id: str
    arm: str | int
    count: int

    def answer(self, work: Work) -> Answer:
        """Return whether they were counted, or why not: who may tell of fallbacks need not see the experiment."""
        before = len(work.events)
        answer = super().answer(work)
        return answer if isinstance(answer, Refused) else len(work.events) > before

    def event(self, work: Work) -> Event | Refused | None:
        arm = work.state.place(self.arm)
        if arm is None:
            return Refused("unknown_arm", f"there is no arm {self.arm!r} in experiment {work.name!r}", "arm")
        if work.has_fallbacks(self.id):
            return None
        return work.state.fall_back(self.id, arm, self.count, work.now)
