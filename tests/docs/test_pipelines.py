"""The page of pipelines: its commands print what it shows, its files are read, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firn.pipelines.folder import read_folder
from firn.pipelines.table_plans import plan_pipeline
from tests.command_line import Command
from tests.docs.pipeline_tables import PAGE, fill

TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Command("http://127.0.0.1:9")
    said = [run(*line.split()[1:]) for line in blocks("bash")[0].splitlines()]
    assert [answer.code for answer in said] == [0, 0, 0], said
    assert said[-1].out == blocks("")[0]


def test_its_files_make_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text("name: orders\ncatalog: lake\ndatabase: mart\n")
    (tmp_path / "firn-pipeline.yml").write_text(blocks("yaml")[0])
    sql = re.sub(r"TBLPROPERTIES .*\n", "", blocks("sql")[0])
    (tmp_path / "transformations" / "a.sql").write_text(sql)
    pipeline = read_folder(tmp_path)
    assert pipeline.problems == ()
    (table,) = plan_pipeline(pipeline, {"dim.driver": {"driver": "bigint", "city": "int"}}.get)
    assert table.is_incremental


def test_its_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[0], {})
    assert "CREATE OR REPLACE TEMPORARY VIEW firn_affected AS SELECT" in capsys.readouterr().out


def test_its_tables_are_those_of_the_code() -> None:
    """`python -m tests.docs.pipeline_tables` writes them."""
    assert fill(TEXT) == TEXT
