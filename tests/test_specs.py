from typing import Any

import pytest

from belated.specs import parse


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


@pytest.mark.parametrize("text", ["a:b", "a:b=", "a:=1", "a:b=1,", "a:b=1,b=2", "a:1=2"])
def test_bad_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"key=value|twice"):
        parse(text)
