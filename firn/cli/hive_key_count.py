"""`firn hive check --unique`: counts duplicate keys of Hive tables that are not upgraded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import typer

from firn.cli.context import CliContext
from firn.cli.hive_report import show_checks
from firn.cli.show import moment
from firn.cli.watch import watch_operation
from firn.errors import Invalid
from firn.hive import Key
from firn.protocol.answers.operations import OperationOut


def count_keys(ctx: CliContext, tables: Sequence[str], columns: Sequence[str], properties: Mapping[str, str]) -> None:
    """Count the duplicate keys of these tables on the server, and wait. Ends with 1 unless every key is unique."""
    if not columns:
        raise Invalid("--unique needs a key", hint="give --primary-key, such as --primary-key id")
    names = defaultdict[str, list[str]](list)
    for table in tables:
        catalog, _, name = str(ctx.client.name(table)).partition(".")
        names[catalog].append(name)
    operations = list[OperationOut]()
    for catalog, own in names.items():
        started = ctx.client.hive.upgrade_many(
            own, catalog=catalog, key=Key(columns), properties=properties, dry_run=True, unique=True
        )
        if started.batch is not None:
            operations += ctx.client.operations.list(batch=started.batch.id)
    ended = [watch_operation(ctx, operation) for operation in operations]
    ctx.show.emit([operation.json_value() for operation in ended], lambda: _show(ctx, ended))
    if not all(is_unique(operation) for operation in ended):
        raise typer.Exit(1)


def is_unique(operation: OperationOut) -> bool:
    """Whether the server has read all rows, and found neither duplicate keys nor nulls."""
    count = operation.result.get("uniqueness", {})
    return bool(count.get("counted")) and not count["surplus_rows"] and not count["null_rows"]


def show_key_counts(ctx: CliContext, operations: Sequence[OperationOut]) -> None:
    """Show the duplicate keys of each table, those with the most rows first, and what was read."""
    for operation in operations:
        count = operation.result.get("uniqueness")
        if not count or not count["counted"]:
            continue
        files = operation.result.get("files")
        read = f"{operation.target}: read {count['rows']:,} rows in {files:,} files, as listed at"
        ctx.show.note(f"{read} {moment(count['listed_at'])}")
        rows = [
            (", ".join(f"{name}={value}" for name, value in key["key"].items()), key["rows"]) for key in count["sample"]
        ]
        if rows:
            ctx.show.table(("key", "rows"), rows, none="")
        if count["keys"] > len(rows):
            ctx.show.note(f"{count['keys'] - len(rows):,} more keys occur more than once")


def _show(ctx: CliContext, operations: Sequence[OperationOut]) -> None:
    for operation in operations:
        ctx.show.facts({"table": operation.target, "outcome": operation.outcome, "error": operation.error})
        show_checks(ctx.show, operation.result.get("checks", []))
    show_key_counts(ctx, operations)
