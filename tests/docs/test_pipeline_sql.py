"""The sections about SQL on the page of pipelines: their files make pipelines that can be put."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firn.pipelines.folder import read_folder
from firn.pipelines.put import build_put
from tests.docs.pipeline_tables import PAGE

TEXT = PAGE.read_text("utf-8")
COLUMNS = {
    "raw.trip": {
        "driver": "bigint",
        "day": "date",
        "status": "string",
        "fare": "decimal(10,2)",
        "tip": "decimal(10,2)",
    },
    "raw.old_trip": {"driver": "bigint", "fare": "decimal(10,2)"},
    "raw.driver_change": {"driver": "bigint", "city": "int", "at": "bigint", "op": "string"},
    "dim.driver": {"driver": "bigint", "city": "int"},
    "dim.address": {"address": "string", "city": "int", "zone": "string"},
    "mart.orders": {"id": "bigint", "address": "string", "city": "int", "zone": "string"},
}


def blocks(title: str, language: str) -> list[str]:
    """The blocks of a language in the section with a title, up to the next title."""
    section = re.split(r"^#+ ", TEXT.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("title", "tables"),
    [
        ("Temporary views", {"mart.fares_of_day": True, "mart.fares_of_driver": True}),
        ("Streaming tables and flows", {"mart.all_fare": True, "mart.driver_now": True, "mart.paid_fare": True}),
        ("Jinja", {"mart.amounts_of_day": True}),
        ("Fill columns of a table that others write", {"mart.orders": True}),
    ],
)
def test_its_files_make_a_pipeline(title: str, tables: dict[str, bool], tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text("name: orders\ncatalog: lake\ndatabase: mart\n")
    for number, text in enumerate(blocks(title, "sql")):
        (tmp_path / "transformations" / f"{number}.sql").write_text(text)
    for text in blocks(title, "yaml"):
        (tmp_path / "firn-pipeline.yml").write_text(text)
    request = build_put(read_folder(tmp_path), COLUMNS.get, catalog="lake")
    assert {table.name: table.incremental for table in request.tables} == tables
