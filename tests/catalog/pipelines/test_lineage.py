"""The inputs of a pipeline behind a column, through its tables."""

from __future__ import annotations

from catalog.pipelines.lineage import find_foreign_source, trace_tables
from firn.protocol.pipelines import TableDefinition


def define(name: str, inputs: list[str], **columns: list[str]) -> TableDefinition:
    """A table whose columns come from these, as TABLE.COLUMN."""
    lineage = [
        {
            "column": column,
            "sources": [dict(zip(("table", "column"), source.rsplit(".", 1), strict=True)) for source in sources],
        }
        for column, sources in columns.items()
    ]
    return TableDefinition.model_validate(
        {
            "name": name,
            "query": "SELECT 1",
            "path": "a.sql",
            "line": 1,
            "inputs": inputs,
            "fingerprint": "a" * 64,
            "incremental": True,
            "lineage": lineage,
        }
    )


def test_origins_are_the_inputs_behind_all_tables() -> None:
    daily = define("mart.daily", ["raw.trip"], fares=["raw.trip.fare", "raw.trip.tip"], trips=[])
    rank = define("mart.rank", ["MART.Daily", "raw.trip"], share=["MART.Daily.Fares", "raw.trip.fare"], n=[])
    _, ranked = trace_tables([daily, rank])
    share, number = ranked.columns
    assert [(source.table, source.is_input) for source in share.sources] == [("MART.Daily", False), ("raw.trip", True)]
    assert [f"{source.table}.{source.column}" for source in share.origins] == ["raw.trip.fare", "raw.trip.tip"]
    assert (number.sources, number.origins) == ([], [])


def test_a_source_that_the_query_does_not_read_is_named() -> None:
    assert find_foreign_source(define("mart.a", ["raw.trip"], x=["RAW.trip.fare"])) is None
    source = find_foreign_source(define("mart.a", ["raw.trip"], x=["raw.secret.key"]))
    assert source is not None
    assert source.table == "raw.secret"
