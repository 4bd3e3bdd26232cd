"""HTML as a tree: which elements a page has, without a browser."""

from collections.abc import Iterator
from html.parser import HTMLParser

EMPTY = {"br", "col", "hr", "img", "input", "link", "meta", "wbr"}
"""Elements that have no end."""


class Node:
    """An element with its attributes and what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Node | str] = []

    def __iter__(self) -> Iterator["Node"]:
        for child in self.children:
            if isinstance(child, Node):
                yield child
                yield from child

    @property
    def text(self) -> str:
        """All text, each run of white space as one blank."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()

    def all(self, tag: str = "", **attributes: str) -> list["Node"]:
        """The elements of this tag with these attributes, in order; `class_` is one of the classes."""
        wanted = {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [each for each in self if tag in ("", each.tag) and all(map(each._has, wanted, wanted.values()))]

    def _has(self, name: str, value: str) -> bool:
        found = self.attributes.get(name)
        return found is not None and (value in found.split() if name == "class" else value == found)

    def one(self, tag: str = "", **attributes: str) -> "Node":
        """The only such element."""
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} elements {tag} {attributes}"
        return found[0]

    def texts(self, tag: str = "", **attributes: str) -> list[str]:
        return [each.text for each in self.all(tag, **attributes)]

    def rows(self) -> list[list[str]]:
        """The texts of the cells of a table, row by row, without its head."""
        return [[cell.text for cell in row if cell.tag in ("th", "td")] for row in self.one("tbody").all("tr")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in EMPTY:
            last = self.open[-1].children[-1]
            assert isinstance(last, Node)
            self.open.append(last)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"{self.open[-1].tag} is open, {tag} ends"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read_html(text: str) -> Node:
    """Read a page, whose elements must be closed in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, [each.tag for each in reader.open]
    return reader.open[0]
