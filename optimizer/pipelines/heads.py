"""The columns of the tables that a query reads."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from firn.pipelines.types import name_type
from firn.protocol.names import format_sql_name
from optimizer.pipelines.inputs import BASE
from optimizer.pipelines.lake import Lake


def open_head(lake: Lake, name: str) -> DataFrame:
    """A frame with the columns of a table as it is now: those of the base store, if it is keyed."""
    is_keyed = bool(lake.table(name).show().primary_key)
    parts = lake.parts(name)
    return lake.spark.table(format_sql_name((*parts, BASE) if is_keyed else parts))


def read_schemas(frames: Mapping[str, DataFrame]) -> dict[str, dict[str, str]]:
    """The columns of tables and their types, as the planner takes them."""
    return {
        name: {field.name.lower(): name_type(field.dataType.simpleString()) for field in frame.schema.fields}
        for name, frame in frames.items()
    }
