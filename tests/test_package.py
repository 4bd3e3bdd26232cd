"""What is published: it builds, its page on PyPI has no broken links, and the wheel runs with numpy and numba alone."""

import email
import email.message
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "belated"
RAW = "https://raw.githubusercontent.com/belated-bandits/belated/main/"
PAGES = "https://github.com/belated-bandits/belated/blob/main/"

LIVE = """
import belated

bandit = belated.Bandit(["blue", "green"], "ucb", seed=0)  # the quickest to compile
decision = bandit.decide()
assert decision.arm in bandit.arms
assert bandit.observe(decision, reward=1.0) is belated.Receipt.USED
result = belated.simulate("ucb", "bernoulli:means=[0.1,0.9]", rounds=1000, replications=2)
assert 0.0 < result.final("ucb").mean < 100.0 < result.uniform_regret[0, -1]
"""


class Built(NamedTuple):
    sdist: Path
    wheel: Path


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The archives; the wheel is made from what the sdist holds."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    assert len(list(out.iterdir())) == 2
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def metadata(built: Built) -> email.message.Message:
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def python(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel, numpy, and numba with its llvmlite; nothing is downloaded."""
    home = tmp_path_factory.mktemp("clean")
    packages = home / "packages"
    packages.mkdir()
    for name in ("numpy", "numba", "llvmlite"):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(str(found.locate_file(top)))
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv")
    python = home / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", built.wheel)
    (site,) = home.glob("venv/lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{packages}\n")
    return python


def run(*command: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that ends with this code, away from the checkout, with no packages but those of its Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BELATED", "NUMBA"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", env=kept, timeout=120)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


def files(folder: Path) -> set[str]:
    """The files under a folder of the checkout that belong to the software."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_the_description_is_accepted_by_pypi(built: Built) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built)


def test_the_description_has_no_relative_links(metadata: email.message.Message) -> None:
    page = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert len(links) == len(re.findall(r"\]\(", (ROOT / "README.md").read_text())) > 10
    for link in links:
        assert link.startswith((RAW, PAGES, "https://", "#")), link
        for base in (RAW, PAGES):
            if link.startswith(base):
                assert (ROOT / link.removeprefix(base).partition("#")[0]).is_file(), link
    images = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page)
    assert images
    assert all(image.startswith(RAW) for image in images)
    assert not re.search(r"<(img|a)\s", page)  # their links would stay relative
    assert not re.search(r"^\[[^\]]+\]: ", page, flags=re.MULTILINE)  # so would these


def test_the_metadata(metadata: email.message.Message) -> None:
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert sorted(re.split(r"\W", each)[0] for each in needed) == ["numba", "numpy"]
    named = set(re.findall(r"'(?:belated|\.)\[(\w+)\]'", (ROOT / "README.md").read_text()))
    assert named == set(metadata.get_all("Provides-Extra", []))
    urls = [url.partition(", ")[0] for url in metadata.get_all("Project-URL", [])]
    assert urls == ["Homepage", "Documentation", "Changelog", "Issues"]


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in files(PACKAGE)}
    assert "belated/py.typed" in names


def test_the_sdist_holds_what_the_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    for folder in ("src", "tests", "docs", "examples", "experiments", "benchmarks"):
        assert files(ROOT / folder) <= names
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile"} <= names
    assert not [name for name in names if name.startswith((".venv", "results", "dist"))]


def test_the_wheel_needs_numpy_and_numba_alone(python: Path) -> None:
    listed = "from importlib.metadata import distributions; print(*sorted(each.name for each in distributions()))"
    assert run(python, "-c", listed).stdout.split() == ["belated", "llvmlite", "numba", "numpy"]
    run(python, "-W", "error", "-c", LIVE)


def test_the_command_of_the_wheel(python: Path) -> None:
    belated = python.parent / "belated"
    assert run(belated, "--version").stdout.split()[-1] == distribution("belated").version
    listed = run(belated, "learners").stdout
    assert re.search(r"^robust +nothing", listed, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from belated import client", "the client needs httpx: pip install 'belated[client]'"),
        ("import belated.client", "the client needs httpx: pip install 'belated[client]'"),
        (
            "import belated; belated.simulate('ucb', 'stochastic:arms=2', rounds=1, replications=1).plot()",
            "a figure needs matplotlib: pip install 'belated[plots]'",
        ),
    ],
)
def test_what_needs_an_extra_names_it(python: Path, code: str, message: str) -> None:
    assert run(python, "-c", code, code=1).stderr.splitlines()[-1] == f"ImportError: {message}"
