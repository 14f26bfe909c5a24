"""Sends a folder's definitions for `firn pipeline put` and `plan --definition`, and says what they do to each table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from firn import pipelines
from firn.cli.context import CliContext
from firn.errors import NotFound
from firn.names import split_name
from firn.pipeline_client import Pipeline
from firn.protocol.names import join_name
from firn.protocol.pipelines import PutOut

DEFAULT_NAMESPACE = "default"
"""The namespace of names without one, if `spark-pipeline.yml` names none: Spark's own default database."""
_CHANGES = {
    "new": "the first run computes all rows",
    "unchanged": "",
    "settings": "rows and checkpoint stay",
    "columns": "new columns: the next run adds them, and computes all rows",
    "rebuild": "the next run computes all rows",
    "removed": "the pipeline no longer writes it; the table stays",
}


def put_folder(ctx: CliContext, folder: Path, *, rebuild: bool, dry_run: bool) -> PutOut:
    """Store the folder's definitions as a new version; a dry run only answers what they would do."""
    pipeline = pipelines.read_folder(folder, namespace=DEFAULT_NAMESPACE)
    catalog = pipeline.catalog or ctx.catalog
    handle = ctx.client.pipelines[pipeline.name]

    def load(name: str) -> Mapping[str, str]:
        return _load_columns(ctx, catalog, name)

    # The server's columns decide: those in firn-pipeline.yml may be old. It does not know those that Python will give.
    own = {name: columns for name, columns in pipeline.sources.items() if name in pipeline.definitions}
    definition = pipelines.build_put(
        replace(pipeline, sources=own),
        load,
        catalog=catalog,
        stored=_load_stored(handle),
        rebuild=rebuild,
        dry_run=dry_run,
    )
    return handle.put(definition)


def show_put(ctx: CliContext, result: PutOut, *, dry_run: bool) -> None:
    """Print what a version does, or would do, to each table."""
    verb = "would be" if dry_run else "is"
    ctx.show.line(f"{result.name} {verb} at version {result.version}")
    rows = [(table.table, str(table.change), _CHANGES.get(str(table.change), "")) for table in result.tables]
    ctx.show.table(("table", "change", "meaning"), rows, none="no tables")


def _load_stored(handle: Pipeline) -> dict[str, pipelines.StoredQuery]:
    """The queries that the server has; none of a pipeline that is new, or that the user may not see."""
    try:
        tables = handle.show().tables
    except NotFound:
        return {}
    stored = {table.name: table.definition for table in tables if {"query", "fingerprint"} <= {*table.definition}}
    return {
        name: pipelines.StoredQuery(entry["query"], entry["fingerprint"], entry.get("extends"))
        for name, entry in stored.items()
    }


def _load_columns(ctx: CliContext, catalog: str, name: str) -> Mapping[str, str]:
    try:
        columns = ctx.client.tables[join_name([catalog, *split_name(name)])].show().columns
    except NotFound as error:
        hint = "create it first, or correct the name in the query"
        raise NotFound(f"catalog {catalog} has no table {name}", hint=hint, request_id=error.request_id) from error
    return {column.name: pipelines.read_spark_type(column.type) for column in columns}
