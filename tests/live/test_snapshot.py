"""Snapshots: of the present version alone."""

import struct

import pytest

from belated import Bandit, SnapshotError
from belated.live import snapshot
from support.refusals import refused


@pytest.mark.parametrize("version", [0, snapshot.VERSION - 1, snapshot.VERSION + 1])
def test_another_version_is_refused(version: int) -> None:
    blob = bytearray(Bandit(2, seed=0).to_bytes())
    assert struct.unpack_from("<8sH", blob) == (snapshot.MAGIC, snapshot.VERSION)
    struct.pack_into("<H", blob, len(snapshot.MAGIC), version)
    with refused(None, version, snapshot.VERSION, error=SnapshotError):
        Bandit.from_bytes(bytes(blob))
