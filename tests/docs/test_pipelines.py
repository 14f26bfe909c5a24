"""The page of pipelines: its commands print what it shows, its files are read, and its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from firn.cli.context import CliContext
from firn.cli.pipeline_backfills import show_backfill
from firn.cli.pipeline_comparison import show_comparison
from firn.cli.pipeline_runs import show_run
from firn.pipelines.chunks import cut_condition
from firn.pipelines.conditions import parse_condition
from firn.pipelines.folder import read_folder
from firn.pipelines.python_files import has_function, parse_python, read_python
from firn.pipelines.settings import read_firn_settings
from firn.pipelines.table_plans import plan_pipeline
from firn.protocol.backfills import BackfillOut, BackfillStatus, ChunkOut
from firn.protocol.pipelines import InputChanges, RunOut, RunResult
from firn.spark.table_comparison import Comparison
from tests.command_line import Command
from tests.docs.pipeline_tables import PAGE, fill

TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Command("http://127.0.0.1:9")
    outputs = [run(*line.split()[1:]) for line in blocks("bash")[0].splitlines()]
    assert [answer.code for answer in outputs] == [0, 0, 0], outputs
    assert outputs[-1].out == blocks("")[0]


def test_a_run_is_printed_as_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    began = datetime(2026, 11, 27, 9, tzinfo=UTC)
    result = RunResult(
        mode="incremental",
        inputs=[
            InputChanges(table="raw.trip", commits=2, files=3, bytes=2_400),
            InputChanges(table="dim.driver", commits=1),
        ],
        keys=3,
        written=2,
        deleted=1,
        snapshot_id="4316214783152394127",
        checkpoint="0a4f7f0e-4b0f-4d0c-9c57-6f0f6f1f6a35",
    )
    run = RunOut(
        job_id="5f0c3f5e-9a3c-4e0b-8f5e-0f5d3c1c7f10",
        pipeline="orders",
        table="mart.driver_daily",
        version=1,
        full=False,
        status="succeeded",
        requested_by=None,
        created_at=began,
        leased_at=began,
        ended_at=began + timedelta(seconds=4),
        error=None,
        attempt=1,
        progress={},
        result=result.model_dump(),
        predicted_seconds=6,
        full_seconds=9,
    )
    show_run(CliContext(), run)
    assert capsys.readouterr().out == blocks("text")[1].partition("\n")[2]


def test_a_backfill_is_printed_as_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    command, _, printed = next(text for text in blocks("text") if "--dry-run" in text).partition("\n")
    words = shlex.split(command)
    where, count = words[words.index("--where") + 1], int(words[words.index("--chunks") + 1])
    types = {"driver": "long", "day": "date"}
    conditions = cut_condition(parse_condition(where, [*types]), types, count, date(2026, 11, 27))
    chunks = [
        ChunkOut(number=number, condition=condition, state="pending", attempts=0, done_at=None)
        for number, condition in enumerate(conditions, 1)
    ]
    shown = BackfillOut(
        id="",
        pipeline="orders",
        table="mart.driver_daily",
        where=where,
        status=BackfillStatus.ACTIVE,
        error=None,
        created_at=datetime(2026, 11, 27, 9, tzinfo=UTC),
        created_by=None,
        ended_at=None,
        chunk_seconds=300,
        total=len(chunks),
        done=0,
        chunks=chunks,
    )
    show_backfill(CliContext(), shown)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()] == printed.splitlines()


def test_a_comparison_is_printed_as_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"driver": "2", "day": "2026-01-05", "city": "8", "trips": "1", "fares": "7.00"}
    different = {"key": {"driver": "1", "day": "2026-01-05"}, "changed": {"city": ["9", "7"]}}
    result = Comparison(
        key=("driver", "day"),
        equal=2_087,
        different=1,
        missing=0,
        additional=1,
        only_old=("_hoodie_commit_time",),
        only_new=(),
        examples={"different": [different], "additional": [row]},
    )
    show_comparison(CliContext().show, "mart.driver_daily", "lake.mart.old_daily", result)
    (shown,) = (text for text in blocks("text") if "--compare" in text)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]  # tables end with spaces
    assert lines == shown.splitlines()[1:]


def test_its_files_make_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text("name: orders\ncatalog: lake\ndatabase: mart\n")
    (tmp_path / "firn-pipeline.yml").write_text(next(text for text in blocks("yaml") if "sources:" in text))
    sql = re.sub(r"TBLPROPERTIES .*\n", "", next(text for text in blocks("sql") if "driver_daily" in text))
    (tmp_path / "transformations" / "a.sql").write_text(sql)
    pipeline = read_folder(tmp_path)
    assert pipeline.problems == ()
    (table,) = plan_pipeline(pipeline, {"dim.driver": {"driver": "bigint", "city": "int"}}.get)
    assert table.is_incremental


def test_its_settings_are_read(tmp_path: Path) -> None:
    texts = [text for text in blocks("yaml") if "firn-pipeline.yml" in text]
    assert len(texts) >= 4
    for text in texts:
        (tmp_path / "firn-pipeline.yml").write_text(text)
        settings = read_firn_settings(tmp_path / "firn-pipeline.yml")
        assert settings.tables or settings.consistent


def test_its_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(next(text for text in blocks("python") if "from firn.pipelines" in text), {})
    assert "CREATE OR REPLACE TEMPORARY VIEW firn_affected AS SELECT" in capsys.readouterr().out


def test_its_python_files_are_read() -> None:
    """tests/integration/pipelines/test_python.py runs such files."""
    view, transform = (text for text in blocks("python") if "firn.pipelines" not in text)
    (definition,) = read_python(view)
    assert (definition.name, [*definition.reads.tables]) == ("fare_of_driver", [("raw", "trip")])
    assert has_function(parse_python(transform), "transform")


def test_its_tables_are_those_of_the_code() -> None:
    """`python -m tests.docs.pipeline_tables` writes them."""
    assert fill(TEXT) == TEXT
