from typing import Any

import pytest

from belated.specs import is_reference, parse
from support.refusals import refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", ("none", {})),
        ("robust:delay_constant=1", ("robust", {"delay_constant": 1})),
        (" pareto : shape = 1.5 , scale = 1e1 ", ("pareto", {"shape": 1.5, "scale": 10.0})),
        ("bernoulli:means=[0.1,0.2],extra=true", ("bernoulli", {"means": [0.1, 0.2], "extra": True})),
        ("recorded:losses=[[0.1,0.2],[1,0]]", ("recorded", {"losses": [[0.1, 0.2], [1, 0]]})),
        ("dropout:others=none", ("dropout", {"others": "none"})),
        (
            "dropout:others=(pareto:shape=1,scale=2),share=0.5",
            ("dropout", {"others": "pareto:shape=1,scale=2", "share": 0.5}),
        ),
    ],
)
def test_words(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["a:b", "a:b=", "a:=1", "a:b=1,", "a:b=1,b=2", "a:1=2", "a:1,b=2", "a:b=1,,2", "a:b=1,2=3"]
)
def test_bad_words(text: str) -> None:
    with refused(None, repr(text)):
        parse(text)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("robust:delay_constant=49,1,0.1", {"delay_constant": [49, 1, 0.1]}),
        ("ewma:weight=0.1, 0.2,exploration=0", {"weight": [0.1, 0.2], "exploration": 0}),
        ("bold:base=exp3,tsallis", {"base": ["exp3", "tsallis"]}),
        ("byarm:laws=0,(geometric:mean=50),7", {"laws": [0, "geometric:mean=50", 7]}),
        ("recorded:losses=[0,1],[1,0]", {"losses": [[0, 1], [1, 0]]}),
    ],
)
def test_lists_need_no_brackets(text: str, settings: dict[str, Any]) -> None:
    assert parse(text)[1] == settings


def test_what_names_a_thing_of_the_users_own() -> None:
    assert is_reference("mine:LEARNER")
    assert is_reference("folder.mine:LEARNER")
    for text in ("mine", "mine:", ":LEARNER", "robust:delay_constant=1", "my-file:X", "mine:x:y", "byarm:laws=[0]"):
        assert not is_reference(text)
    assert is_reference("robust:delay_constant", known=("ucb",))
    assert not is_reference("robust:delay_constant", known=("robust",))
