"""The site of the documentation has every page once in its navigation, and pages that are generated from the code."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docsite.__main__ import ROOT, write_pages
from docsite.markdown import escape, table


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    write_pages(out)
    return out / "docs"


def listed(nav: list[Any]) -> Iterator[str]:
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            for below in item.values():
                yield from listed(below)


def test_every_page_is_once_in_the_navigation(pages: Path) -> None:
    nav = [*listed(tomllib.loads((ROOT / "docsite" / "zensical.toml").read_text("utf-8"))["project"]["nav"])]
    there = {page.relative_to(pages).as_posix() for page in pages.rglob("*.md")}
    decisions = {page for page in there if page.startswith("decisions/0")}
    assert sorted(nav) == sorted(there - decisions)
    assert len(decisions) > 150


def test_commands_come_with_their_options(pages: Path) -> None:
    page = (pages / "reference" / "cli" / "policy.md").read_text("utf-8")
    assert "firn policy set [OPTIONS] [TABLE] KEY=VALUE…" in page
    assert "| `--namespace <str>` | Set the policy of all tables of this namespace. |" in page
    overview = (pages / "reference" / "cli" / "index.md").read_text("utf-8")
    assert "| [`firn up`](up.md) |" in overview
    assert "| `--json` | Print JSON, for programs. |" in overview


def test_routes_and_decisions_are_listed(pages: Path) -> None:
    assert "| `GET /catalogs` | List catalogs |" in (pages / "reference" / "rest.md").read_text("utf-8")
    assert "[0001](0001-metastore-through-py4j.md)" in (pages / "decisions" / "index.md").read_text("utf-8")


def test_text_of_the_code_cannot_become_markup() -> None:
    assert escape("a <b>\nor | c") == "a &lt;b> or \\| c"
    assert table(("x",), []) == ""
