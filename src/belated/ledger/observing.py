"""Commands that report outcomes: the first of a decision, or one of several."""

from collections.abc import Sequence
from typing import NamedTuple

from belated.api.types import OutcomeReceipt
from belated.errors import InvalidValue
from belated.ledger.commands import RECEIPTS, Answer, Command, Work
from belated.ledger.events import DecisionRecord, Fate, Hears, Reported


class Report(NamedTuple):
    """What is reported of a decision: a loss, or a value in the experiment's units; or that all was reported."""

    decision: str
    loss: float | None = None
    value: float | None = None
    id: str | None = None
    """Of the report."""
    final: bool | None = None


class Observe(Command, frozen=True):
    """Take reports of outcomes."""

    outcomes: Sequence[Report]

    @property
    def decision_ids(self) -> list[str]:
        return [each[0] for each in self.outcomes]

    @property
    def report_ids(self) -> list[tuple[str, str]]:
        return [(each.decision, each.id) for each in self.outcomes if each.id is not None]

    def answer(self, work: Work) -> Answer:
        take = self._add if work.record.settings.hears == Hears.REPORTS else self._take
        answers = []
        for each in self.outcomes:
            made = work.known.get(each[0])
            if made is None:
                message = f"there is no decision {each[0]!r} in experiment {work.name!r}"
                answers.append(OutcomeReceipt(each[0], "unknown", message=message))
                continue
            try:
                answers.append(take(work, each, made))
            except InvalidValue as error:
                answers.append(OutcomeReceipt(each[0], "refused", message=str(error), field=error.field or "value"))
        return answers

    def _take(self, work: Work, report: Report, made: DecisionRecord) -> OutcomeReceipt:
        """Take the first outcome of a decision, which stays."""
        id, loss, value, report_id, final = report
        if final is not None:
            raise InvalidValue(
                f"final is {final}, but in this experiment the first report stays: leave it out", "final"
            )
        if value is not None:
            value, loss = _scaled(work, value)
        assert loss is not None
        if made.loss is None:
            if not made.defaulted and work.is_overdue(made):  # there were too many to take care of all
                work.settle(id, made)
                made = work.known[id]
            event = work.state.observe(id, made, loss, work.now, value, report_id)
            work.events.append(self._signed(event))
            work.known[id] = made._replace(loss=loss, fate=event.fate)
            return OutcomeReceipt(id, RECEIPTS[event.fate])
        if made.loss == loss:
            return OutcomeReceipt(id, "repeated", RECEIPTS[made.fate])
        message = f"decision {id!r} has the loss {made.loss}, which {loss} contradicts; the first one stays"
        return OutcomeReceipt(id, "conflict", message=message)

    def _add(self, work: Work, report: Report, made: DecisionRecord) -> OutcomeReceipt:
        """Take one of several reports of a decision."""
        id, now = report.decision, work.now
        value = self._value(work, report)
        if value is None:
            return self._close(work, id, made)
        if report.id is not None:
            before = work.reported.get((made.round, report.id))
            if before is not None and before.value == value:
                if report.final:  # said with it before, or only now
                    return self._close(work, id, made)
                return OutcomeReceipt(id, "repeated", RECEIPTS[before.fate])
            if before is not None:
                message = f"report {report.id!r} of decision {id!r} said {before.value:g}, which {value:g} contradicts"
                return OutcomeReceipt(id, "conflict", message=message, field="report")
        if not (made.settled or made.defaulted) and work.is_overdue(made):
            work.settle(id, made)
            made = work.known[id]
        total = combined(work.record.settings.reports, made.total, value)
        if not (made.settled or made.defaulted):  # else it changes nothing, whatever it is
            _check_total(work, id, value, total)
        event = work.state.report(id, made, value, total, report.id, now)
        work.events.append(self._signed(event))
        if report.id is not None:
            work.reported[made.round, report.id] = Reported(value, event.fate)
        made = work.known[id] = made._replace(total=event.total)
        if report.final and not (made.settled or made.defaulted):
            return self._close(work, id, made)
        return OutcomeReceipt(id, RECEIPTS[event.fate])

    def _close(self, work: Work, id: str, made: DecisionRecord) -> OutcomeReceipt:
        """Settle a decision, as all was reported of it."""
        if made.settled or made.defaulted:
            return OutcomeReceipt(id, "repeated", RECEIPTS[made.settled or Fate.LATE])
        if made.total is None:
            raise InvalidValue(f"nothing has been reported of decision {id!r}; final needs a value with it", "final")
        event = work.state.settle(id, made, work.now)
        work.events.append(self._signed(event))
        work.known[id] = made._replace(settled=event.fate)
        return OutcomeReceipt(id, RECEIPTS[event.fate])

    def _value(self, work: Work, report: Report) -> float | None:
        """Return what is reported, in the units of the experiment; None where it says only that all was reported."""
        settings = work.record.settings
        is_sum = settings.reports == "sum"
        if report.value is not None:
            if settings.outcome is None:
                raise _no_units(work, report.value)
            value = report.value
        elif report.loss is not None:
            if is_sum and settings.outcome is not None:
                raise InvalidValue("loss or reward is given, but values are added up here; value is needed", "value")
            value = work.state.scale.value(report.loss)
        else:
            return None
        if is_sum and report.id is None:
            raise InvalidValue(
                "reports are added up here, so that each needs an id: one that is sent twice counts once", "report"
            )
        return value


def combined(reports: str, total: float | None, value: float) -> float:
    """Return what several reports amount to."""
    if total is None or reports == "last":
        return value
    return total + value if reports == "sum" else max(total, value)


def _check_total(work: Work, id: str, value: float, total: float) -> None:
    """Refuse a report with which those of a decision amount to what this experiment does not take."""
    scale = work.state.scale
    try:
        scale.check(total)
    except InvalidValue as error:
        if total == value:
            raise
        raise InvalidValue(
            f"with {value:g} the reports of decision {id!r} amount to {total:g};"
            f" a number from {scale.lowest:g} to {scale.highest:g} is needed",
            error.field,
        ) from None


def _scaled(work: Work, value: float) -> tuple[float, float]:
    """Return a value, checked, and the loss that it stands for."""
    if work.record.settings.outcome is None:
        raise _no_units(work, value)
    checked = work.state.scale.check(value)
    return checked, work.state.scale.loss(checked).loss


def _no_units(work: Work, value: float) -> InvalidValue:
    return InvalidValue(
        f"value is {value:g}, but experiment {work.name!r} has no units: it was created without `outcome`;"
        " loss or reward is needed",
        "value",
    )
