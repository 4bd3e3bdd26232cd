"""What a spreadsheet would take for a formula is not one in CSV, and is untouched elsewhere."""

import csv
import io
import json
from contextlib import closing
from pathlib import Path

import pyarrow.parquet

from belated.ledger import open_ledger
from belated.ledger.commands import Decide
from belated.ledger.events import ExperimentSettings
from belated.ledger.export import pieces
from belated.ledger.processor import CommandProcessor

ARMS: list[str | int] = ["=1+1", "+sum", "-x", "@cmd", "\tx", "\rx", "-2.5e-3", "+7", "plain", "a=b", -4, 12]
CELLS = ["'=1+1", "'+sum", "'-x", "'@cmd", "'\tx", "'\rx", "-2.5e-3", "+7", "plain", "a=b", "-4", "12"]
IDS = ["=HYPERLINK(1)", "-1", "-1-2", "@a", "plain", "+1+1"]
ID_CELLS = ["'=HYPERLINK(1)", "-1", "'-1-2", "'@a", "plain", "'+1+1"]


def test_labels_and_ids_that_look_like_formulas_get_an_apostrophe(tmp_path: Path) -> None:
    with closing(open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")) as ledger:
        ledger.create(ExperimentSettings("one", ARMS, "uniform", {}, 3, "wait"), 0, 10)
        CommandProcessor(ledger).run([Decide("one", IDS), Decide("one", [f"n{k}" for k in range(300)])])
        record = ledger.find("one")
        assert record is not None
        text, lines, packed = (b"".join(pieces(ledger, record, format)) for format in ("csv", "ndjson", "parquet"))
        played = [ARMS[event.arm] for event in ledger.events(record.number)]
    assert set(map(str, played)) == set(map(str, ARMS))
    found = list(csv.DictReader(io.StringIO(text.decode(), newline="")))
    assert [each["decision"] for each in found[: len(IDS)]] == ID_CELLS
    cells = dict(zip(ARMS, CELLS, strict=True))
    assert [each["arm"] for each in found] == [cells[arm] for arm in played]
    shown = [json.loads(line) for line in lines.splitlines()]
    assert [each["arm"] for each in shown] == played
    assert [each["decision"] for each in shown[: len(IDS)]] == IDS
    table = pyarrow.parquet.read_table(io.BytesIO(packed))
    assert table["arm"].to_pylist() == list(map(str, played))
    assert table["decision"].to_pylist()[: len(IDS)] == IDS
