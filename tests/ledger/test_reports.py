"""Several reports of one decision: what they amount to is settled once, when all is reported or the deadline passes."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from belated.api.types import OutcomeScale, Reports
from belated.ledger import open_ledger
from belated.ledger.changing import MoveArm
from belated.ledger.commands import ApplyDeadlines, Decide, KeepSnapshot
from belated.ledger.events import ExperimentSettings, Fate, Kind
from belated.ledger.export import pieces
from belated.ledger.forget import Ids, forget
from belated.ledger.observing import Observe, Report
from belated.ledger.sql import SqlLedger
from support.ledger_helpers import MOST, observe
from support.played import DEADLINE, NAME, REVENUE, Played, begun
from support.protocol_model import read, told
from support.serving import KINDS


def sums(ledger: SqlLedger, **settings: Any) -> Played:
    return begun(ledger, **{"outcome": REVENUE, "reports": "sum", **settings})


def paid(value: float, id: str | None, decision: str = "d", final: bool | None = None) -> Report:
    return Report(decision, None, value, id, final)


def final(decision: str = "d") -> Report:
    return Report(decision, final=True)


HELD = ("held", None)
USED = ("used", None)


@pytest.mark.parametrize(
    ("rule", "totals"), [("sum", [30.0, 110.0, 90.0]), ("last", [30.0, 80.0, -20.0]), ("largest", [30.0, 80.0, 80.0])]
)
def test_what_reports_amount_to(ledger: SqlLedger, rule: Reports, totals: list[float]) -> None:
    """Two purchases and a refund; the learner hears of one outcome."""
    played = begun(ledger, outcome=REVENUE, reports=rule)
    (made,) = played.decide("d")
    assert played.report(paid(30.0, "r1")) == [HELD]
    assert played.report(paid(80.0, "r2"), paid(-20.0, "r3")) == [HELD, HELD]
    reports = played.of(Kind.REPORT)
    assert [event.total for event in reports] == totals
    assert [event.fate for event in reports] == [Fate.HELD, Fate.JOINED, Fate.JOINED]
    assert [(event.value, event.report, event.loss) for event in reports] == [
        (30.0, "r1", None),
        (80.0, "r2", None),
        (-20.0, "r3", None),
    ]
    assert (played.state.held, sum(played.state.outcomes), played.state.bandit.outstanding) == (1, 0, 1)
    assert played.report(final()) == [USED]
    (settled,) = played.of(Kind.SETTLED)
    loss = 1.0 - max(totals[-1], 0.0) / 200.0
    assert (settled.round, settled.total, settled.loss, settled.value) == (made.round, totals[-1], loss, None)
    state = played.state
    assert (state.held, sum(state.outcomes), state.bandit.outstanding) == (0, 1, 0)
    assert sum(state.losses) == loss
    assert state.clipped == (totals[-1] < 0)
    assert played.of(Kind.OUTCOME) == []
    played.check()


def test_a_final_report_settles_with_its_value_or_without(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d", "e")
    assert played.report(paid(30.0, "r1"), paid(20.0, "r2", final=True)) == [HELD, USED]
    assert played.report(paid(50.0, "r1", "e", final=True)) == [USED]
    assert [event.total for event in played.of(Kind.SETTLED)] == [50.0, 50.0]
    played.check()


def test_final_needs_something_to_settle(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    (receipt,) = played.receipts(final())
    assert (receipt.receipt, receipt.field) == ("refused", "final")
    assert played.of(Kind.SETTLED, Kind.REPORT) == []
    assert played.report(paid(1.0, "r1"), final()) == [HELD, USED]


def test_final_is_not_for_experiments_in_which_the_first_report_stays(ledger: SqlLedger) -> None:
    played = begun(ledger)
    played.decide("d")
    for is_final in (True, False):
        (receipt,) = played.receipts(Report("d", 0.5, final=is_final))
        assert (receipt.receipt, receipt.field) == ("refused", "final")
    assert played.report(Report("d", 0.5)) == [USED]


def test_final_false_settles_nothing(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    assert played.report(paid(1.0, "r1", final=False), paid(2.0, "r2", final=False)) == [HELD, HELD]
    assert played.of(Kind.SETTLED) == []


def test_reports_after_settling_are_kept_and_change_nothing(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    played.report(paid(30.0, "r1", final=True))
    before = played.state
    bandit, losses = before.bandit.to_bytes(), list(before.losses)
    assert played.report(paid(50.0, "r2"), paid(9000.0, "r3", final=True)) == [("skipped", None)] * 2
    assert played.report(paid(50.0, "r2"), final()) == [("repeated", "skipped"), ("repeated", "used")]
    late = played.of(Kind.REPORT)[1:]
    assert [(event.value, event.total, event.fate) for event in late] == [
        (50.0, 30.0, Fate.LATE),
        (9000.0, 30.0, Fate.LATE),
    ]
    after = played.state
    assert (after.bandit.to_bytes(), after.losses, after.clipped, after.late_reports) == (bandit, losses, 0, 2)
    assert len(played.of(Kind.SETTLED)) == 1
    played.check()


def test_a_late_report_is_not_refused_for_what_it_would_amount_to(ledger: SqlLedger) -> None:
    played = sums(ledger, outcome=OutcomeScale(0.0, 200.0, beyond="refuse"))
    played.decide("d")
    assert played.report(paid(150.0, "r1", final=True)) == [USED]
    assert played.report(paid(100.0, "r2")) == [("skipped", None)]
    played.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_counts_once_under_its_id(ledger: SqlLedger) -> None:
    """Within a batch, between batches, in another worker, before and after a snapshot."""
    played = sums(ledger)
    played.decide("d", "e")
    assert played.report(paid(30.0, "r1"), paid(30.0, "r1"), paid(30.0, "r1", "e")) == [
        HELD,
        ("repeated", "held"),
        HELD,
    ]
    assert played.report(paid(30.0, "r1")) == [("repeated", "held")]
    played.run(KeepSnapshot(NAME))
    played.worker = played.another()
    assert played.report(paid(30.0, "r1"), paid(5.0, "r2")) == [("repeated", "held"), HELD]
    played.worker, before = played.another(), played.worker
    assert played.report(paid(5.0, "r2")) == [("repeated", "held")]
    played.worker = before
    two = [told(answer) for answer in played.run(*[Observe(NAME, [paid(7.0, "r3")])] * 2)]
    assert two == [[HELD], [("repeated", "held")]]
    assert [event.total for event in played.of(Kind.REPORT) if event.id == "d"] == [30.0, 35.0, 42.0]
    played.check()


def test_a_final_report_that_is_sent_again_says_what_became_of_it(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d", "e")
    assert played.report(paid(30.0, "r1", final=True), paid(30.0, "r1", final=True)) == [USED, ("repeated", "used")]
    played.worker = played.another()
    assert played.report(paid(30.0, "r1", final=True), final()) == [("repeated", "used")] * 2
    # what was said of a report before is said to be final now
    assert played.report(paid(30.0, "r1", "e"), paid(30.0, "r1", "e", True)) == [HELD, USED]
    assert len(played.of(Kind.SETTLED)) == 2
    assert len(played.of(Kind.REPORT)) == 2
    played.check()


def test_what_was_settled_for_nothing_says_so_when_it_is_repeated(ledger: SqlLedger) -> None:
    """The arm has left meanwhile."""
    played = sums(ledger)
    (made,) = played.decide("d")
    played.done(MoveArm(NAME, str(made.arm), True))
    assert played.report(paid(30.0, "r1", final=True)) == [("skipped", None)]
    assert played.report(final()) == [("repeated", "skipped")]
    played.worker = played.another()
    assert played.report(final(), paid(30.0, "r1", final=True)) == [("repeated", "skipped")] * 2
    played.check()


def test_another_value_under_the_same_id_is_a_conflict(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    played.report(paid(30.0, "r1"))
    before = played.events
    for worker in (played.worker, played.another()):
        played.worker = worker
        (receipt,) = played.receipts(paid(31.0, "r1", final=True))
        assert receipt.receipt == "conflict"
        assert [word for word in ("'r1'", "'d'", "30", "31") if word not in str(receipt.message)] == []
    assert played.events == before


@pytest.mark.parametrize("rule", ["last", "largest"])
def test_where_nothing_is_added_up_reports_need_no_id(ledger: SqlLedger, rule: Reports) -> None:
    played = begun(ledger, outcome=REVENUE, reports=rule)
    played.decide("d")
    assert played.report(paid(30.0, None), paid(30.0, None), Report("d", 0.9)) == [HELD] * 3
    reports = played.of(Kind.REPORT)
    assert [event.value for event in reports] == [30.0, 30.0, pytest.approx(20.0)]
    assert reports[-1].total == pytest.approx(20.0 if rule == "last" else 30.0)
    played.check()


def test_what_is_refused_leaves_nothing_and_the_others_stay(ledger: SqlLedger) -> None:
    played = sums(ledger, outcome=OutcomeScale(0.0, 200.0, beyond="refuse"))
    played.decide("d")
    receipts = played.receipts(
        paid(30.0, "r1"),
        paid(30.0, None),
        Report("d", 0.5, id="r2"),
        paid(180.0, "r3"),
        paid(-31.0, "r4"),
        paid(201.0, "r5"),
        paid(5.0, "r6", "nobody"),
        paid(170.0, "r7"),
    )
    words = [each.receipt for each in receipts]
    assert words == ["held", "refused", "refused", "refused", "refused", "refused", "unknown", "held"]
    assert [each.field for each in receipts if each.receipt == "refused"] == [
        "report",
        "value",
        "value",
        "value",
        "value",
    ]
    said = [str(each.message) for each in receipts]
    assert [word for word in ("180", "'d'", "210", "0 to 200") if word not in said[3]] == []
    assert ("-1" in said[4], "231" in said[5]) == (True, True)
    assert [event.report for event in played.of(Kind.REPORT)] == ["r1", "r7"]
    assert played.report(paid(180.0, "r3")) == [("refused", None)]  # nothing is known of it
    assert played.report(final()) == [USED]
    assert played.of(Kind.SETTLED)[0].loss == 0.0
    played.check()


def test_a_first_report_beyond_the_range_is_refused_by_itself(ledger: SqlLedger) -> None:
    played = sums(ledger, outcome=OutcomeScale(0.0, 200.0, beyond="refuse"))
    played.decide("d")
    (receipt,) = played.receipts(paid(201.0, "r1"))
    assert (receipt.receipt, receipt.field) == ("refused", "value")
    assert "201" in str(receipt.message)


def test_without_units_rewards_are_added_up(ledger: SqlLedger) -> None:
    played = begun(ledger, reports="sum")
    played.decide("d")
    assert played.report(Report("d", 0.75, id="r1"), Report("d", 0.5, id="r2")) == [HELD, HELD]
    (receipt,) = played.receipts(paid(0.1, "r3"))
    assert (receipt.receipt, receipt.field) == ("refused", "value")
    assert [event.total for event in played.of(Kind.REPORT)] == [0.25, 0.75]
    assert played.report(final()) == [USED]
    assert played.of(Kind.SETTLED)[0].loss == 0.25
    played.decide("e")
    assert played.report(*(Report("e", 0.25, id=f"r{k}") for k in range(2)), final("e")) == [HELD, HELD, USED]
    assert [(event.total, event.loss) for event in played.of(Kind.SETTLED)[1:]] == [(1.5, 0.0)]  # no more than 1
    assert played.state.clipped == 0
    played.check()


def test_values_where_the_first_stays(ledger: SqlLedger) -> None:
    played = begun(ledger, learner="exp3", outcome=OutcomeScale(0.0, 200.0, "lower"))
    played.decide("d", "e", "f")
    assert played.report(paid(50.0, "order-1"), paid(300.0, None, "e"), Report("f", 0.25)) == [USED] * 3
    assert played.report(paid(50.0, None), paid(60.0, None), paid(250.0, None, "e")) == [
        ("repeated", "used"),
        ("conflict", None),
        ("repeated", "used"),  # the same end of the range
    ]
    outcomes = played.of(Kind.OUTCOME)
    assert [(event.value, event.loss, event.report) for event in outcomes] == [
        (50.0, 0.25, "order-1"),
        (300.0, 1.0, None),
        (None, 0.25, None),
    ]
    assert played.state.clipped == 1
    played.check()


def test_a_value_after_the_deadline_is_not_counted_as_clipped(ledger: SqlLedger) -> None:
    played = begun(ledger, outcome=REVENUE, deadline=DEADLINE)
    played.decide("d", "e")
    played.report(paid(300.0, None))
    played.wait(10)
    assert played.report(paid(300.0, None, "e")) == [("skipped", None)]
    assert played.state.clipped == 1
    played.check()


def test_a_deadline_settles_what_was_reported_and_takes_the_default_where_nothing_was(ledger: SqlLedger) -> None:
    played = sums(ledger, deadline=DEADLINE)
    played.decide("d", "e")
    played.report(paid(30.0, "r1"))
    played.wait(9.999999)
    played.report(paid(20.0, "r2"))
    assert played.of(Kind.SETTLED, Kind.DEFAULT) == []
    played.wait(0.000001)
    played.run(ApplyDeadlines(NAME))
    settled, default = played.of(Kind.SETTLED, Kind.DEFAULT)
    assert (settled.kind, settled.id, settled.total, settled.loss, settled.key) == (Kind.SETTLED, "d", 50.0, 0.75, None)
    assert (default.kind, default.id, default.loss, default.total) == (Kind.DEFAULT, "e", 0.9, None)
    assert played.report(paid(5.0, "r3"), paid(5.0, "r1", "e"), final("e")) == [
        ("skipped", None),
        ("skipped", None),
        ("repeated", "skipped"),
    ]
    assert [event.total for event in played.of(Kind.REPORT)] == [30.0, 50.0, 50.0, None]
    state = played.state
    assert (state.defaults, state.late_reports, state.held, sum(state.outcomes)) == (1, 2, 0, 2)
    played.check()


def test_reports_of_overdue_decisions_come_too_late_however_many_are_due(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that one turn does not take care of are settled when they are reported of."""
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 2)
    played = sums(ledger, deadline=DEADLINE)
    ids = [f"d{k}" for k in range(8)]
    played.decide(*ids)
    played.report(*[paid(10.0, "r1", id) for id in ids[:6]])
    played.wait(10.0)
    assert played.report(paid(1.0, "r2", "d5"), paid(1.0, "r2", "d7"), final("d4"), final("d6")) == [
        ("skipped", None),
        ("skipped", None),
        USED,
        ("refused", None),
    ]
    assert [event.id for event in played.of(Kind.SETTLED)] == ["d0", "d1", "d5", "d4"]
    assert [event.id for event in played.of(Kind.DEFAULT)] == ["d7"]
    while played.run(ApplyDeadlines(NAME)) == [True]:
        pass
    assert sorted(event.id for event in played.of(Kind.SETTLED)) == ids[:6]
    assert sorted(event.id for event in played.of(Kind.DEFAULT)) == ids[6:]
    played.check()


@pytest.mark.parametrize("rule", ["sum", "last", "largest"])
def test_totals_go_on_after_a_restart_and_a_snapshot(ledger: SqlLedger, rule: Reports) -> None:
    """The same with and without them, bit for bit."""
    played = begun(ledger, outcome=REVENUE, reports=rule, deadline=DEADLINE)
    for k in range(12):
        played.decide(*[f"{k}-{n}" for n in range(5)])
        for n in range(min(k, 4)):
            played.report(paid(10.0 * n + 0.1 * k, f"r{k}", f"{k - n}-{n}", None if n < 3 else True))
        played.wait(2.0)
        if k % 4 == 1:
            played.run(KeepSnapshot(NAME))
        if k % 4 == 3:
            played.worker = played.another()
    assert {event.fate for event in played.of(Kind.REPORT)} == {Fate.HELD}
    played.report(*[paid(3.0, "more", f"11-{n}") for n in range(5)])
    state = played.state
    assert state.held > 0
    assert len(ledger.snapshots(played.number)) == 2
    played.check()


TAMPERED: list[tuple[str, str, Kind, list[str]]] = [
    ("total", "50.5", Kind.REPORT, ["event 4", "50.5", "50.0"]),
    ("value", "20.5", Kind.REPORT, ["event 4", "50.0", "50.5"]),
    ("fate", str(int(Fate.HELD)), Kind.REPORT, ["event 4", "round 1"]),
    ("fate", str(int(Fate.LATE)), Kind.REPORT, ["event 4", "round 1"]),
    ("fate", str(int(Fate.USED)), Kind.REPORT, ["event 4"]),
    ("arm", "(arm + 1) % 3", Kind.REPORT, ["event 4", "round 1"]),
    ("waited", "waited + 1", Kind.REPORT, ["event 4", "round 1"]),
    ("id", "'x'", Kind.REPORT, ["event 4", "round 1"]),
    ("round", "2", Kind.REPORT, ["event 4", "round 2"]),
    ("round", "99", Kind.REPORT, ["event 4", "round 99"]),
    ("loss", "0.5", Kind.SETTLED, ["event 5", "0.5", "50.0"]),
    ("total", "51.0", Kind.SETTLED, ["event 5", "51.0", "50.0"]),
    ("fate", str(int(Fate.SKIPPED)), Kind.SETTLED, ["event 5"]),
]


@pytest.mark.parametrize(("column", "value", "kind_of", "values"), TAMPERED)
def test_what_was_tampered_with_is_found(
    ledger: SqlLedger, column: str, value: str, kind_of: Kind, values: list[str]
) -> None:
    played = sums(ledger)
    played.decide("d", "e")
    played.report(paid(30.0, "r1"), paid(20.0, "r2"), final())
    played.decide(*"fghi")
    assert played.faults() == []
    number = played.of(kind_of)[-1].number
    played.write(f"UPDATE events SET {column} = {value} WHERE number = ?", number)
    faults = played.faults()
    assert any(all(each in fault for each in values) for fault in faults), faults


@pytest.mark.parametrize("is_default", [False, True])
def test_a_late_report_that_was_tampered_with_is_found(ledger: SqlLedger, is_default: bool) -> None:
    played = sums(ledger, deadline=DEADLINE)
    played.decide("d")
    if not is_default:
        played.report(paid(30.0, "r1"))
    played.wait(10)
    played.report(paid(20.0, "r2"))
    assert played.faults() == []
    played.write("UPDATE events SET total = 50.0 WHERE report = 'r2'")
    assert "50.0" in played.faults()[0]


@pytest.mark.parametrize(("column", "value"), [("value", 60.0), ("loss", 0.5)])
def test_a_value_that_does_not_fit_its_loss_is_found(ledger: SqlLedger, column: str, value: float) -> None:
    played = begun(ledger, outcome=REVENUE)
    played.decide("d")
    played.report(paid(50.0, None))
    assert played.faults() == []
    played.write(f"UPDATE events SET {column} = ? WHERE number = 2", value)
    assert "event 2" in played.faults()[0]


@pytest.mark.parametrize("kind", KINDS)
def test_erasing_a_decision_erases_the_ids_of_its_reports(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d", "e")
    played.report(paid(30.0, "order-1"), paid(5.0, "order-2"), paid(9.0, "order-3", "e"))
    played.report(final())
    before = played.state.to_bytes()
    assert forget(ledger, played.record, Ids(("d",))) == 1
    left = [(event.id, event.report) for event in played.of(Kind.REPORT, Kind.SETTLED)]
    assert left == [(None, None), (None, None), ("e", "order-3"), (None, None)]
    assert [event.total for event in played.of(Kind.REPORT)] == [30.0, 35.0, 9.0]
    assert played.report(paid(30.0, "order-1")) == [("unknown", None)]
    assert played.state.to_bytes() == before
    played.check()
    assert forget(ledger, played.record, Ids(("e",))) == 1
    played.check()


def test_erasing_an_outcome_erases_the_id_of_its_report(ledger: SqlLedger) -> None:
    played = begun(ledger, outcome=REVENUE)
    played.decide("d")
    played.report(paid(30.0, "order-1"))
    forget(ledger, played.record, Ids(("d",)))
    assert [(event.id, event.report) for event in played.events] == [(None, None)] * 2
    played.check()


def exported(played: Played, format: str) -> bytes:
    return b"".join(pieces(played.ledger, played.record, format))


def test_exports_have_values_totals_and_reports(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    played.report(paid(30.0, "r1"), paid(20.5, "r2"), final())
    lines = [json.loads(line) for line in exported(played, "ndjson").splitlines()]
    columns = ("kind", "decision", "loss", "receipt", "value", "total", "report")
    assert [tuple(line[column] for column in columns) for line in lines] == [
        ("decision", "d", None, None, None, None, None),
        ("report", "d", None, "held", 30.0, 30.0, "r1"),
        ("report", "d", None, "held", 20.5, 50.5, "r2"),
        ("settled", "d", 1 - 50.5 / 200, "used", None, 50.5, None),
    ]
    header, *rows = exported(played, "csv").decode().splitlines()
    assert header.split(",")[-5:] == ["key", "value", "total", "report", "detail"]
    assert rows[2].split(",")[-4:] == ["20.5", "50.5", "r2", ""]


def test_parquet_has_them_too(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with closing(open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")) as ledger:
        assert isinstance(ledger, SqlLedger)
        played = sums(ledger)
        played.decide("d")
        played.report(paid(30.0, "r1"))
        (tmp_path / "one.parquet").write_bytes(exported(played, "parquet"))
        row = parquet.read_table(tmp_path / "one.parquet").to_pylist()[1]
    assert (row["kind"], row["value"], row["total"], row["report"]) == ("report", 30.0, 30.0, "r1")


def test_whoever_asked_is_named_by_reports_and_by_what_they_settle(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    played.run(Observe(NAME, [paid(30.0, "r1", final=True)], key=3))
    assert [(event.kind, event.key) for event in played.events[1:]] == [(Kind.REPORT, 3), (Kind.SETTLED, 3)]


def test_two_workers_add_up_what_both_hear(ledger: SqlLedger) -> None:
    played = sums(ledger)
    played.decide("d")
    workers = [played.another(), played.another()]
    for k in range(10):
        workers[k % 2].run([Observe(NAME, [paid(k, f"r{k}")])])
    assert [event.total for event in played.of(Kind.REPORT)] == [sum(range(k + 1)) for k in range(10)]
    assert {read(worker, NAME).state.to_bytes() for worker in workers} == {played.state.to_bytes()}
    played.check()


def test_outcomes_of_other_experiments_are_not_looked_at(ledger: SqlLedger) -> None:
    """The same ids of decisions and reports in another experiment are others."""
    played = sums(ledger)
    ledger.create(ExperimentSettings("two", ["a", "b"], "balanced", {}, 5, "wait"), 0, MOST)
    played.run(Decide(NAME, ["d"]), Decide("two", ["d"]), observe("two", [("d", 0.5)]), Observe(NAME, [paid(1, "r")]))
    assert played.report(paid(1.0, "r"), final()) == [("repeated", "held"), USED]
    played.check()
