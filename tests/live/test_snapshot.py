"""Snapshots of earlier versions: what versions 3 to 6 kept is read, and the bandit goes on as it would have then.

tests/data/snapshots-v3.json holds snapshots that belated 0.1.0 made after 300 rounds, with decisions outstanding, given
up on and kept, and what that version did next: 20 decisions with draws given, 5 with the bandit's own, the outcomes
that came in between, and at the end the outcome of every other decision. tests/data/snapshots-v4.json holds the same
bandits as the code before version 5 kept them, and
tests/data/snapshots-v5.json and snapshots-v6.json as the code before versions 6 and 7 did.
"""

import base64
import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import Bandit, Decision, SnapshotError
from belated.live import snapshot
from support.refusals import refused

CASES = json.loads((Path(__file__).parents[1] / "data" / "snapshots-v3.json").read_text())
KEPT = {
    version: json.loads((Path(__file__).parents[1] / "data" / f"snapshots-v{version}.json").read_text())
    for version in (4, 5, 6)
}
TOLERANCE = 1e-9  # other processors differ in the last bits


def blob_of(case: dict[str, Any], version: int = 3) -> bytes:
    return zlib.decompress(base64.b64decode(case["snapshot"] if version == 3 else KEPT[version][case["learner"]]))


def own_draw(bandit: Bandit) -> float:
    """Return the draw that the bandit would use next."""
    if not bandit._draws:
        bandit._draws = bandit._generator.random(128)[::-1].tolist()
    return bandit._draws.pop()


def assert_goes_on(bandit: Bandit, case: dict[str, Any]) -> None:
    """Do what was done then, and see that it comes out as it did then.

    thompson drew its thetas then, and played the smallest with a propensity of 1. Now it draws the arm: the arms of
    then are taken as they are on record, and what it learns from them must be the same.
    """
    draws_arms = bandit.learner != "thompson"
    for number, step in enumerate(case["steps"], case["rounds"] + 1):
        if draws_arms:
            decision = bandit.decide(draw=step["draw"])
            assert (decision.round, decision.arm) == (number, step["arm"])
            assert decision.propensity == pytest.approx(step["propensity"], rel=TOLERANCE)
        else:
            draw = own_draw(bandit) if step["draw"] is None else step["draw"]
            assert 0.0 < bandit.redo(Decision(number, step["arm"], step["propensity"]), draw=draw) < 1.0
        for s, loss, receipt in step["outcomes"]:
            assert bandit.observe(s, loss=loss).value == receipt
    assert [bandit.observe(s, loss=loss).value for s, loss, _ in case["last"]] == [word for _, _, word in case["last"]]
    if draws_arms:
        np.testing.assert_allclose(bandit.distribution, case["distribution_after"], rtol=TOLERANCE)
    np.testing.assert_allclose(bandit.loss_estimates, case["loss_estimates_after"], rtol=TOLERANCE)


@pytest.mark.parametrize("version", [3, 4, 5, 6])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["learner"])
def test_a_snapshot_of_an_earlier_version_is_read(case: dict[str, Any], version: int) -> None:
    blob = blob_of(case, version)
    assert struct.unpack_from("<8sH", blob) == (snapshot.MAGIC, version)
    bandit = Bandit.from_bytes(blob)
    assert bandit.learner == case["learner"]
    assert list(bandit.arms) == case["arms"]
    assert (bandit.rounds, bandit.outstanding, bandit.skipped) == (300, case["outstanding"], case["skipped"])
    assert bandit.cumulative_outstanding == case["cumulative_outstanding"]
    assert bandit.patience == pytest.approx(math.inf if case["patience"] is None else case["patience"], rel=TOLERANCE)
    assert bandit.drift == pytest.approx(case["drift"], rel=TOLERANCE)
    assert bandit._run.clock["longest_delay"][0] == 0  # not kept then
    np.testing.assert_array_equal(bandit.distribution, case["distribution"])
    np.testing.assert_array_equal(bandit.loss_estimates, case["loss_estimates"])


@pytest.mark.parametrize("version", [3, 4, 5, 6])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["learner"])
def test_from_an_earlier_version_a_bandit_goes_on_as_it_would_have(case: dict[str, Any], version: int) -> None:
    assert_goes_on(Bandit.from_bytes(blob_of(case, version)), case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["learner"])
def test_what_was_read_can_be_kept_in_the_present_version(case: dict[str, Any]) -> None:
    kept = Bandit.from_bytes(blob_of(case)).to_bytes()
    assert struct.unpack_from("<8sH", kept) == (snapshot.MAGIC, snapshot.VERSION)
    again = Bandit.from_bytes(kept)
    assert again.drift == pytest.approx(case["drift"], rel=TOLERANCE)
    assert_goes_on(again, case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["learner"])
def test_estimates_begin_where_an_earlier_version_ended(case: dict[str, Any]) -> None:
    """What came of decisions was not kept then: estimates take the decisions since, and outcomes of those alone."""
    bandit = Bandit.from_bytes(blob_of(case, 5))
    assert bandit.estimates().decisions == 0
    decision = bandit.decide()
    for number in bandit._slots.copy():
        bandit.observe(number, reward=1.0)
    known = bandit.estimates()
    assert (known.decisions, known.used, known[decision.arm].mean.value) == (1, 1, 1.0)


def test_the_snapshots_hold_what_is_hard_to_keep() -> None:
    """Decisions outstanding with every learner; skipped ones that come late, and ones that are learned from then."""
    by_name = {case["learner"].partition(":")[0]: case for case in CASES}
    assert all(case["outstanding"] > 10 for case in CASES)
    for name, late in [("balanced", "skipped"), ("robust", "skipped"), ("hybrid_skipping", "used")]:
        case = by_name[name]
        assert case["skipped"] > 0
        came = [each for step in case["steps"] for each in step["outcomes"]] + case["last"]
        given_up = [receipt for s, _, receipt in came if s < case["rounds"] - case["patience"]]
        assert late in given_up


@pytest.mark.parametrize("version", [0, 2, snapshot.VERSION + 1])
def test_an_unknown_version_is_refused(version: int) -> None:
    blob = bytearray(Bandit(2, seed=0).to_bytes())
    struct.pack_into("<H", blob, len(snapshot.MAGIC), version)
    with refused(None, version, error=SnapshotError):
        Bandit.from_bytes(bytes(blob))


def test_a_clock_of_another_size_is_refused() -> None:
    """In version 3 it has 19 fields."""
    header, arrays = snapshot.unpack(blob_of(CASES[0]))
    parts = {name: array.tobytes() for name, array in arrays.items()}
    parts["clock"] = bytes(8 * 18)
    text = json.dumps({**header, "sizes": {name: len(part) for name, part in parts.items()}}).encode()
    body = struct.pack("<I", len(text)) + text + b"".join(parts.values())
    blob = struct.pack("<8sH16s", snapshot.MAGIC, 3, snapshot._digest(body)) + body
    with refused(None, 18, 19, error=SnapshotError):
        Bandit.from_bytes(blob)
