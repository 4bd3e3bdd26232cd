"""Tables that fit a width."""

from belated.report.columns import NARROWEST, Column, Table, fold, shown_width

ROWS = [["first", "a text of many words that may take several lines", "1"], ["second", "short", "20"]]


def table(**settings: bool | int) -> Table:
    return Table([Column("name"), Column("what it is", **settings), Column("n", right=True)], ROWS)  # type: ignore[arg-type]


def widest(text: str) -> int:
    return max(map(shown_width, text.splitlines()))


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    text, left_out = table(drop=1, fold=True).fit(None)
    assert text.splitlines() == [
        "name    what it is                                         n",
        "──────  ────────────────────────────────────────────────  ──",
        "first   a text of many words that may take several lines   1",
        "second  short                                             20",
    ]
    assert left_out == ()
    assert table(drop=1).fit(widest(text)).text == text


def test_columns_are_left_out_in_their_order() -> None:
    columns = [Column("a"), Column("b", drop=2), Column("c", drop=1), Column("d")]
    made = Table(columns, [["xxxx", "yyyy", "zzzz", "wwww"]])
    assert made.fit(22).left_out == ()
    assert made.fit(21).left_out == ("c",)
    assert made.fit(16).left_out == ("c",)
    assert made.fit(15).left_out == ("b", "c")
    assert made.fit(1).text.splitlines()[-1] == "xxxx  wwww"


def test_columns_are_folded() -> None:
    text, left_out = table(fold=True).fit(40)
    assert left_out == ()
    assert widest(text) == 40
    assert text.splitlines()[2:] == [
        "first   a text of many words that      1",
        "        may take several lines",
        "second  short                         20",
    ]
    assert widest(table(fold=True).fit(1).text) == 6 + NARROWEST + 2 + 2 * 2  # no narrower than that


def test_other_columns_follow_in_parts() -> None:
    columns = [Column("cell"), *(Column(f"learner {k}", right=True) for k in range(5))]
    made = Table(columns, [[f"cell {r}", *(f"{r}{k}" for k in range(5))] for r in range(2)], keys=1)
    parts = made.fit(30).text.split("\n\n")
    assert [part.splitlines()[0] for part in parts] == [
        "cell    learner 0  learner 1",
        "cell    learner 2  learner 3",
        "cell    learner 4",
    ]
    assert parts[1].splitlines()[3].split() == ["cell", "1", "12", "13"]
    assert widest(made.fit(30).text) <= 30
    assert "\n\n" not in made.fit(None).text
    assert len(made.fit(1).text.split("\n\n")) == 5  # one column at least in each part


def test_hats_take_no_room() -> None:
    assert shown_width("σ̂") == 1
    assert fold("σ̂" * 10, 10) == ["σ̂" * 10]


def test_texts_are_folded_with_an_indent() -> None:
    assert fold("one two three", 8, "  ") == ["one two", "  three"]
    assert fold("one two three", None) == ["one two three"]


def test_headings_stand_above_groups_of_rows() -> None:
    made = Table(
        [Column("name"), Column("n", right=True)], [["a", "1"], ["b", "2"], ["c", "3"]], headings={0: "x: y", 2: "z"}
    )
    assert made.fit(None).text.splitlines()[2:] == ["x: y", "a     1", "b     2", "", "z", "c     3"]
    long = Table([Column("name")], [["a" * 20]], headings={0: "a heading of many words"})
    assert long.fit(None).text.splitlines()[2:4] == ["a heading of many", "  words"]
