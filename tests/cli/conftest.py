"""Figures take most of the time of the commands that draw them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are not drawn; other tests look at them."""

    def save(figure: Any, path: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
        return [path.with_suffix(f".{kind}") for kind in kinds]

    monkeypatch.setattr("belated.report.figures.save", save)
