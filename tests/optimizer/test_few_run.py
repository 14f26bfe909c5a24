"""Which runs compare and write few rows without Spark (decision 220)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, DateType, DoubleType, IntegerType, StructField

from firn.protocol.pipeline_outputs import OutputMode
from firn.spark.target import Target
from optimizer.pipelines.few_run import FewRun, open_few
from optimizer.pipelines.store_files import StoreFiles


def open_it(
    *,
    files: bool = True,
    definition: dict[str, Any] | None = None,
    target: dict[str, Any] | None = None,
    pins: dict[str, Any] | None = None,
    kind: DataType | None = None,
) -> FewRun | None:
    loader: Any = None
    keyed = Target(
        name="lake.mart.t",
        change="lake.mart.t.change",
        key=("k",),
        sequence_field=None,
        is_partition_scoped=False,
        has_partial_columns=False,
        fields=(StructField("k", kind or IntegerType()),),
        partition_columns=(),
    )
    facts: list[Any] = [
        SimpleNamespace(files=StoreFiles(loader) if files else None, say=print),
        SimpleNamespace(**{"output_mode": OutputMode.UPSERT, "validators": [], "code": None, **(definition or {})}),
        None,
        SimpleNamespace(
            **{
                "is_keyed": True,
                "is_empty": False,
                "shown": SimpleNamespace(hides=None),
                "load_keyed": lambda: keyed,
                **(target or {}),
            }
        ),
        SimpleNamespace(**{"chunks": None, "replay": None, "writes_unchanged": False, **(pins or {})}),
    ]
    return open_few(*facts)


def test_a_table_with_a_key_takes_few_rows_without_spark() -> None:
    assert open_it() is not None


@pytest.mark.parametrize(
    "facts",
    [
        {"files": False},  # of a set, or held
        {"definition": {"validators": ["not null"]}},
        {"definition": {"output_mode": OutputMode.COLUMNS}},
        {"definition": {"code": "transform"}},
        {"target": {"is_keyed": False}},
        {"target": {"is_empty": True}},
        {"target": {"shown": SimpleNamespace(hides="old rows")}},  # PyArrow would read them
        {"pins": {"chunks": "some"}},
        {"pins": {"replay": "some"}},
        {"pins": {"writes_unchanged": True}},
        {"kind": DoubleType()},
    ],
)
def test_other_runs_are_sparks(facts: dict[str, Any]) -> None:
    assert open_it(**facts) is None


def test_rows_with_a_value_that_python_lacks_are_compared_by_spark(capsys: pytest.CaptureFixture[str]) -> None:
    few = open_it(kind=DateType())
    assert few is not None
    rows = pa.table({"k": pa.array([3_700_000], pa.date32())})  # in the year 12100
    assert few._finish(rows, rows, lambda: pytest.fail("its keys are not wrong")) is None
    assert "Spark compares the rows" in capsys.readouterr().out
