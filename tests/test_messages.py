"""The wording of messages: what users read stands in tests/data/messages.txt, and nowhere else in the tests.

To reword a message, change it and run `python -m pytest tests/test_messages.py --reword`; read the difference.
"""

import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import messages
from belated.delays import Delays
from belated.environments import Environment

GOLDEN = Path(__file__).parent / "data" / "messages.txt"
NUMBERS_THAT_VARY = [(re.compile(r"0x[0-9a-f]+"), "0x…")]


def said(case: Callable[[Path], object], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a case says: what it prints, warns of, returns as text, or raises."""
    words: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            returned = case(folder)
            if isinstance(returned, str):
                words.append(returned)
        except (Exception, SystemExit) as error:
            words.append(f"{type(error).__name__}: {error}")
    printed = capsys.readouterr()
    words = [printed.out, printed.err, *(f"{each.category.__name__}: {each.message}" for each in warned), *words]
    text = "\n".join(word.rstrip() for word in words if word.strip()).replace(str(folder), "FOLDER")
    for pattern, instead in NUMBERS_THAT_VARY:
        text = pattern.sub(instead, text)
    assert text, "this case says nothing"
    return text


def test_messages_say_what_they_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("BELATED_KEY", raising=False)
    for kind in (Delays, Environment):  # messages list what there is: leave out what tests have defined
        ours = {name: member for name, member in kind.members.items() if member.__module__.startswith("belated.")}
        monkeypatch.setattr(kind, "members", ours)
    found: dict[str, str] = {}
    for module in sorted(each.name for each in pkgutil.iter_modules(messages.__path__)):
        for name, case in importlib.import_module(f"messages.{module}").CASES.items():
            folder = tmp_path / str(len(found))
            folder.mkdir()
            monkeypatch.chdir(folder)
            found[f"{module}: {name}"] = said(case, folder, capsys)
    text = "\n\n".join(f"## {name}\n{words}" for name, words in found.items()) + "\n"
    if request.config.getoption("--reword"):
        GOLDEN.write_text(text)
    expected = dict(
        part.split("\n", 1) for part in GOLDEN.read_text().removeprefix("## ").rstrip("\n").split("\n\n## ")
    )
    assert found == expected
