"""Rendering: text is escaped, what is missing is an error, and every page extends the same frame."""

import sys
from pathlib import Path

import pytest
from jinja2 import TemplateNotFound, UndefinedError

from belated import templates
from support.refusals import refused

FOLDER = Path(templates.__file__).parent
EVIL = '<script>alert("&")</script>'
PAGE = {
    "title": "service",
    "version": "1",
    "description": "text",
    "example": "curl",
    "operations": [],
    "own_errors": [],
    "common_errors": [],
    "types": [],
}


def test_text_is_escaped() -> None:
    page = templates.render("docs.html", **{**PAGE, "title": EVIL, "example": EVIL})
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#34;&amp;&#34;)&lt;/script&gt;") == 3  # the tab, the heading, the example


def test_styles_are_not_escaped() -> None:
    page = templates.render("docs.html", **PAGE)
    for name in ("style.css", "docs.css"):
        assert (FOLDER / name).read_text().strip() in page
    assert (FOLDER / "report.css").read_text().strip() not in page


@pytest.mark.parametrize("name", sorted(PAGE))
def test_a_missing_name_is_an_error(name: str) -> None:
    with pytest.raises(UndefinedError) as caught:
        templates.render("docs.html", **{key: value for key, value in PAGE.items() if key != name})
    assert f"'{name}'" in str(caught.value)


def test_a_missing_template_is_an_error() -> None:
    with pytest.raises(TemplateNotFound) as caught:
        templates.render("nothing.html")
    assert caught.value.name == "nothing.html"


def test_every_page_extends_the_frame() -> None:
    pages = {path.name for path in FOLDER.glob("*.html")} - {"base.html", "macros.html"}
    assert pages >= {"docs.html", "report.html"}
    for name in pages:
        assert (FOLDER / name).read_text().startswith('{% extends "base.html" %}'), name


def test_without_jinja2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    templates._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with refused(None, "jinja2", "'belated[league,service]'", error=ImportError):
        templates.render("docs.html", **PAGE)
