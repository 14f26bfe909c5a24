"""The page about Spark's projects: its example is planned as it shows.

tests/integration/pipelines/test_spark_projects.py runs such projects.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.command_line import Command
from tests.docs.blocks import DOCS

PAGE = (DOCS / "pipelines-from-spark.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```(sql|python|yaml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SHOWN = re.findall(r"^```text\n(mart\..*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_example_is_planned_as_the_page_shows(tmp_path: Path) -> None:
    folder = tmp_path / "both"
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text("name: both\ndatabase: mart\nstorage: file:///tmp/both\n")
    (folder / "transformations" / "tables.sql").write_text(BLOCKS["sql"])
    (folder / "transformations" / "views.py").write_text(BLOCKS["python"])
    (tmp_path / "inputs.yml").write_text("raw.trip: {id: bigint, driver: int, status: string, fare: 'decimal(10,2)'}")
    plan = ("pipeline", "plan", str(folder), "--schema", str(tmp_path / "inputs.yml"))
    run = Command("http://127.0.0.1:9")
    assert [run(*plan).out] == SHOWN
    (folder / "firn-pipeline.yml").write_text(BLOCKS["yaml"])
    assert "mart.highest  incremental, scope driver (its key)" in run(*plan).out
