"""Pages that list options or properties list those of the code."""

from __future__ import annotations

import re

from catalog.policy.settings import SETTINGS
from firn.spark.jars import ICEBERG_RUNTIME
from firn.spark.sessions import EXTENSIONS, catalog_conf
from tests.docs.blocks import ADDRESS, DOCS, QUICKSTART, documented_options


def test_the_options_of_plain_spark_are_those_that_the_helpers_set() -> None:
    assert f"--packages {':'.join(ICEBERG_RUNTIME)} " in QUICKSTART.read_text(encoding="utf-8")
    assert documented_options() == {"spark.sql.extensions": EXTENSIONS, **catalog_conf(ADDRESS, "lake")}


def test_the_page_of_policies_lists_every_one_with_its_default() -> None:
    page = (DOCS / "policies.md").read_text("utf-8")
    listed = re.findall(r"^\| `(firn\.\S+)` \| (–|`[^`]+`) \| (.+) \|$", page, re.MULTILINE)
    documented = [
        (setting.key, f"`{setting.default}`" if setting.default else "–", setting.does) for setting in SETTINGS.values()
    ]
    assert listed == documented


def test_no_page_has_both_sides_of_a_merge() -> None:
    """Storage credentials had them for a day."""
    marks = re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md"]
    assert [page.name for page in pages if marks.search(page.read_text("utf-8"))] == []
