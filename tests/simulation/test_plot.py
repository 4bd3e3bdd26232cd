"""Figures: `plot` draws with the user's backend, saved figures leave pyplot alone, and threads do not disturb each
other.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from belated.league import Comparison, ComparisonPlan, compare
from belated.report import figures
from belated.simulation import Simulation, simulate
from support.refusals import refused

LEARNERS = ("robust", "damped", "ucb")


@pytest.fixture(scope="module")
def result() -> Simulation:
    return simulate(LEARNERS, "bernoulli:means=[0.2,0.8]", "constant:delay=3", rounds=500, replications=4)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    plan = ComparisonPlan(LEARNERS, ("stochastic:arms=3",), ("none", "outlier"), rounds=200, replications=2)
    return compare(plan)


@pytest.fixture
def backend() -> Iterator[str]:
    """A backend that nobody would choose for another, and what was there before afterwards."""
    before = mpl.get_backend()
    mpl.use("svg")
    yield "svg"
    plt.close("all")
    mpl.use(before)


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.get_lines()}


def test_the_curves_are_those_of_the_simulation(result: Simulation, backend: str) -> None:
    axes = result.plot()
    assert mpl.get_backend() == backend
    assert plt.get_fignums() == [axes.figure.number]  # the backend shows it
    drawn = lines(axes)
    assert list(drawn)[:-1] == ["robust", "damped†", "ucb"]
    for name, label in zip(LEARNERS, drawn, strict=False):
        mean, low, high = result.curve(name)
        np.testing.assert_array_equal(drawn[label].get_xdata(), result.checkpoints)
        np.testing.assert_array_equal(drawn[label].get_ydata(), np.maximum(mean, 1e-3))
        band = axes.collections[LEARNERS.index(name)].get_paths()[0].vertices
        last = band[band[:, 0] == result.checkpoints[-1], 1]
        assert (last.min(), last.max()) == (low[-1], high[-1])
    np.testing.assert_allclose(list(drawn.values())[-1].get_ydata(), result.uniform_regret.mean(axis=0))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(drawn)
    assert "damped (longest_delay)" in axes.get_xlabel()
    assert axes.get_title() == f"{result.environment.title}\n{result.delays.title}"


def test_some_learners_on_axes_of_the_user(result: Simulation, backend: str) -> None:
    own = mpl.figure.Figure().subplots()
    assert result.plot("ucb", ax=own) is own
    assert list(lines(own))[:-1] == ["ucb"]
    assert "†" not in own.get_xlabel()
    assert list(lines(result.plot(["ucb", "robust"])))[:-1] == ["ucb", "robust"]
    assert len(plt.get_fignums()) == 1
    assert mpl.get_backend() == backend


def test_what_cannot_be_drawn(result: Simulation, backend: str) -> None:
    with refused("learner of this simulation", "'ucbb'", "'ucb'"):
        result.plot(["robust", "ucbb"])
    with refused("learners"):
        result.plot([])
    assert plt.get_fignums() == []  # no empty figure is left


def test_one_replication_and_one_round_can_be_drawn(backend: str) -> None:
    axes = simulate("ucb", "stochastic:arms=2", rounds=1, replications=1).plot()
    axes.figure.canvas.draw()
    assert axes.get_xlim() == (1.0, 2.0)


def test_a_comparison_is_a_panel_for_each_cell(comparison: Comparison, backend: str) -> None:
    axes = comparison.plot()
    assert axes.shape == (1, 2)
    assert plt.get_fignums() == [axes[0, 0].figure.number]
    titles = [" ".join(panel.get_title().split()) for panel in axes[0]]
    assert titles == [cell.delays.title for cell in comparison.cells]
    for panel, cell in zip(axes.flat, comparison.cells, strict=True):
        np.testing.assert_array_equal(lines(panel)["ucb"].get_ydata()[-1], cell.final("ucb").mean)
    assert mpl.get_backend() == backend


def test_saved_figures_are_nothing_to_pyplot(comparison: Comparison, backend: str, tmp_path: Path) -> None:
    settings = dict(mpl.rcParams)
    written = figures.save(figures.draw_comparison(comparison), tmp_path / "regret", ("png", "svg", "pdf"))
    assert [path.suffix for path in written] == [".png", ".svg", ".pdf"]
    assert [path.read_bytes()[:4] for path in written] == [b"\x89PNG", b"<?xm", b"%PDF"]
    assert plt.get_fignums() == []
    assert mpl.get_backend() == backend
    assert dict(mpl.rcParams) == settings


def test_saving_does_not_import_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from belated.report import figures; from belated.simulation import plot\n"
        "with plot.settings():\n"
        "    figure = plot.new_figure(1, 1); figure.subplots()\n"
        f"figures.save(figure, Path({str(tmp_path / 'empty')!r}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_threads_draw_the_same_and_leave_the_settings(comparison: Comparison, tmp_path: Path) -> None:
    settings = dict(mpl.rcParams)
    figures.save(figures.draw_comparison(comparison), tmp_path / "alone", ("svg",))
    failures: list[BaseException] = []

    def draw(name: str) -> None:
        try:
            figures.save(figures.draw_comparison(comparison), tmp_path / name, ("svg",))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=draw, args=(f"thread{k}",)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert dict(mpl.rcParams) == settings
    assert len({path.read_bytes() for path in tmp_path.glob("*.svg")}) == 1
    assert len(list(tmp_path.glob("*.svg"))) == 3


def test_without_matplotlib_the_extra_is_named(result: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused(None, "matplotlib", "belated[plots]", error=ImportError):
        result.plot()
