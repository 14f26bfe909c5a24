"""Columns of a table with their statistics."""

from __future__ import annotations

from fastapi import APIRouter

from catalog.files.column_statistics import judge_nulls, judge_range
from catalog.history.schema_text import format_iceberg_type
from catalog.iceberg.json import Json
from catalog.tables.column_description import list_fields
from catalog.tables.description import read_column_labels
from firn.protocol.answers.columns import Certainty, ColumnStatisticsOut, TableColumnsOut
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.table_views import format_snapshot_id
from server.service.tables.column_statistics import ColumnStatistics

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])


@router.get("/{table}/columns", summary="Show statistics of columns", responses=refusals(404))
def show_columns(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> TableColumnsOut:
    """Show nulls, ranges, sizes and distinct values of the columns, from manifests and statistics files.

    The server reads no data file. For tables with very many files it reads a part of the manifests, and says so.
    """
    return _build_out(services.column_counts.count(catalog, table))


def _build_out(statistics: ColumnStatistics) -> TableColumnsOut:
    fields = {field["id"]: field for _, field in list_fields(statistics.schema)}
    labels = read_column_labels(statistics.properties)
    columns = [
        _build_column(statistics, fields[field_id], list(labels.get(field_id, ())))
        for field_id in statistics.counts.columns
    ]
    return TableColumnsOut(
        snapshot_id=format_snapshot_id(statistics.snapshot_id),
        counted_at=statistics.counted_at,
        rows=statistics.counts.rows_read,
        files=statistics.counts.files,
        files_read=statistics.counts.files_read,
        pending_rows=statistics.pending_rows,
        notes=list(_list_notes(statistics)),
        columns=columns,
    )


def _build_column(statistics: ColumnStatistics, field: Json, labels: list[str]) -> ColumnStatisticsOut:
    counts, counter = statistics.counts, statistics.counts.columns[field["id"]]
    distinct = statistics.distinct.get(field["id"])
    lower, upper = statistics.ranges[field["id"]]
    return ColumnStatisticsOut(
        id=field["id"],
        name=counter.column.path,
        type=format_iceberg_type(field["type"]),
        required=bool(field.get("required")),
        comment=field.get("doc"),
        labels=labels,
        nulls=counter.nulls if counter.rows or not counts.rows_read else None,
        counted_rows=counter.rows,
        nulls_are=Certainty(judge_nulls(counts, counter, hides_rows=statistics.hides_rows)),
        lower=lower,
        upper=upper,
        range_is=Certainty(judge_range(counts, counter, hides_rows=statistics.hides_rows)),
        bytes=counter.size if counter.size is not None or counts.rows_read else 0,
        distinct=None if distinct is None else distinct.estimate,
        distinct_snapshot_id=None if distinct is None else format_snapshot_id(distinct.snapshot_id),
        distinct_is_current=distinct is not None
        and distinct.snapshot_id == statistics.snapshot_id
        and not statistics.pending_rows,
    )


def _list_notes(statistics: ColumnStatistics) -> list[str]:
    counts, notes = statistics.counts, []
    if counts.files_read < counts.files:
        notes.append(
            f"{counts.files_read:,} of {counts.files:,} files are counted, because the table has very many; ranges of "
            "partition columns include all files"
        )
    if statistics.pending_rows:
        notes.append(
            f"{statistics.pending_rows:,} pending changes are counted beside the rows that they replace; a merge makes "
            "the figures exact"
        )
    if counts.rows_read and all(counter.size is None for counter in counts.columns.values()):
        notes.append("the sizes of columns are unknown: ORC and Avro files do not tell them")
    if counts.has_deletes:
        notes.append("delete files hide rows that are counted here; a rewrite of deletes makes the figures exact")
    return notes
