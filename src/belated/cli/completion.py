"""Completion of commands in the shell, by argcomplete; and `belated completion`."""

import argparse
from importlib.util import find_spec
from typing import Any

from belated.cli.output import Output

LINES = {
    "bash": 'eval "$(register-python-argcomplete belated)"',
    "zsh": 'eval "$(register-python-argcomplete belated)"',
    "fish": "register-python-argcomplete --shell fish belated | source",
}
FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc, below compinit", "fish": "~/.config/fish/config.fish"}


def completion(options: argparse.Namespace, out: Output) -> int:
    """Print the line that turns completion on: `belated completion`."""
    if find_spec("argcomplete") is None:
        raise ImportError("completion needs argcomplete: pip install 'belated[cli]'")
    out.note(f"for all shells to come, add this line to {FILES[options.shell]}:")
    out.text(LINES[options.shell])
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks what may come next, and exit."""
    import argcomplete

    argcomplete.autocomplete(parser)


def learners(prefix: str = "", **rest: Any) -> list[str]:
    """Return the names of learners; behind a name and a colon, what can be set of it."""
    from belated.learners import catalogue

    name, colon, _ = prefix.partition(":")
    if colon and name in catalogue:
        return [f"{name}:{word}=" for word in catalogue[name].words]
    return list(catalogue)


def cells(**rest: Any) -> list[str]:
    """Return the ids of the cells of the suite."""
    from belated.league.suite import suite

    return list(suite)


def families(**rest: Any) -> list[str]:
    """Return the names of the families of cells."""
    from belated.league.suite import FAMILIES

    return list(FAMILIES)


def environments(**rest: Any) -> list[str]:
    """Return the names of environments."""
    from belated.environments import Environment

    return list(Environment.members)


def delays(**rest: Any) -> list[str]:
    """Return the names of laws of delay."""
    from belated.delays import Delays

    return list(Delays.members)
