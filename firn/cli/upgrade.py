"""`firn hive upgrade`"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from firn.cli import hive
from firn.cli.context import CliContext, command
from firn.cli.hive import PATTERN, SubdirectoriesOption, Tables, check_hive, properties_of, split_names
from firn.cli.show import size
from firn.cli.unique import check_unique
from firn.cli.watch import check_operation, watch_batch, watch_operation
from firn.errors import Invalid
from firn.hive import Key
from firn.protocol.answers.operations import OperationOut
from firn.transport import Json

app = hive.app  # `upgrade` is a command of `firn hive`

_GOOD = ("upgraded", "eligible")

PrimaryKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE=]COLUMNS",
        help="Key columns, separated by commas, for all tables or for TABLE; may be repeated.",
    ),
]
SequenceFields = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE=]COLUMN",
        help="Column that decides which change is newer, for all tables or for TABLE; may be repeated.",
    ),
]
Unique = Annotated[
    bool, typer.Option("--unique", help="Check the keys after the upgrade, and downgrade the table if keys repeat.")
]
Keep = Annotated[bool, typer.Option("--keep", help="With --unique: keep the upgraded table even if keys repeat.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show only the report, and change nothing.")]


@command(app, "upgrade", waits=True)
def upgrade_hive(  # noqa: PLR0913 -- its options are what people type
    ctx: CliContext,
    tables: Tables,
    primary_key: PrimaryKeys = None,
    sequence_field: SequenceFields = None,
    *,
    unique: Unique = False,
    keep: Keep = False,
    subdirectories: SubdirectoriesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Upgrade Hive tables in place. Firn registers their files; none is moved or changed."""
    keys = _build_keys(_parse_by_table(ctx, primary_key), _parse_by_table(ctx, sequence_field))
    are_many = len(tables) > 1 or any(sign in tables[0] for sign in PATTERN)
    if unique and (dry_run or not keys or are_many):
        raise Invalid(
            "--unique checks the keys of one table after its upgrade",
            hint="give one table and --primary-key, without --dry-run; `firn table check-keys` checks other tables",
        )
    key = keys.get(_full_name(ctx, tables[0]), keys.get(""))
    properties = properties_of(subdirectories)
    if are_many:
        _upgrade_many(ctx, tables, keys, properties, dry_run=dry_run)
    elif dry_run:
        check_hive(ctx, tables, ",".join(() if key is None else key.columns), subdirectories)
    else:
        ended = _upgrade_table(ctx, tables[0], key, properties)
        if unique:
            check_unique(ctx, tables[0], keep=keep)
        else:
            ctx.show.emit([ended.json_value()], lambda: None)


def _upgrade_table(ctx: CliContext, table: str, key: Key | None, properties: Mapping[str, str]) -> OperationOut:
    """Upgrade one table and wait for the end. A failed upgrade ends the command."""
    columns, sequence = ((), None) if key is None else (key.columns, key.sequence_field)
    started = ctx.client.hive.upgrade(table, primary_key=columns, sequence_field=sequence, properties=properties)
    ended = watch_operation(ctx, started)
    check_operation(ended)
    ctx.show.note(f"upgraded {table}")
    return ended


def _upgrade_many(
    ctx: CliContext, tables: Sequence[str], keys: Mapping[str, Key], properties: Mapping[str, str], *, dry_run: bool
) -> None:
    """Start an upgrade of each table, one batch for each catalog, and wait for the ends."""
    show, operations = ctx.show, list[OperationOut]()
    for catalog, names in _group_by_catalog(ctx, tables).items():
        own_keys = {name.partition(".")[2]: key for name, key in keys.items() if name.partition(".")[0] == catalog}
        started = ctx.client.hive.upgrade_many(
            names, catalog=catalog, key=keys.get(""), keys=own_keys, properties=properties, dry_run=dry_run
        )
        for name, reason in started.skipped.items():
            show.note(f"{name} is skipped: {reason}")
        if started.batch is not None:
            watch_batch(ctx, started.batch, catalog)
            operations += ctx.client.operations.list(batch=started.batch.id)
    documents = [_build_report(operation) if dry_run else operation.json_value() for operation in operations]
    show.emit(documents, lambda: _show_operations(ctx, operations))
    if not all(operation.outcome in _GOOD for operation in operations):
        raise typer.Exit(1)


def _build_report(operation: OperationOut) -> Json:
    """Build the JSON that `firn hive check` prints for a table."""
    verdict = {"table": operation.target, "eligible": operation.outcome == "eligible", "error": operation.error}
    return {**verdict, **operation.result}


def _show_operations(ctx: CliContext, operations: Sequence[OperationOut]) -> None:
    """Show one line for each table, with its blockers and their advice."""
    rows = [
        (
            operation.target,
            operation.outcome,
            operation.result.get("partitions"),
            operation.result.get("files"),
            size(operation.result["bytes"]) if "bytes" in operation.result else None,
            "; ".join(_list_blockers(operation)) or None,
        )
        for operation in operations
    ]
    columns = ("table", "outcome", "partitions", "files", "bytes", "blockers, and what to do")
    ctx.show.table(columns, rows, none="nothing to do: all matching tables are already upgraded")
    counts: dict[str, int] = defaultdict(int)
    for operation in operations:
        counts[operation.outcome] += 1
    ctx.show.note(", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items())))


def _list_blockers(operation: OperationOut) -> list[str]:
    checks = operation.result.get("checks", ())
    blockers = [
        f"{check['code']}: {check['message']}. {check['advice']}" for check in checks if check["status"] == "blocked"
    ]
    if blockers or operation.error is None:
        return blockers
    return [operation.error if operation.hint is None else f"{operation.error}. {operation.hint}"]


def _group_by_catalog(ctx: CliContext, tables: Sequence[str]) -> dict[str, list[str]]:
    names = defaultdict[str, list[str]](list)
    for table in tables:
        catalog, _, name = _full_name(ctx, table).partition(".")
        names[catalog].append(name)
    return dict(names)


def _full_name(ctx: CliContext, table: str) -> str:
    """The name with its catalog. A pattern may lack a dot."""
    return str(ctx.client.name(table)) if "." in table else f"{ctx.client.catalog}.{table}"


def _parse_by_table(ctx: CliContext, options: Sequence[str] | None) -> dict[str, str]:
    """Parse `[TABLE=]VALUE` options into values by full table name; the key '' is for all other tables."""
    values: dict[str, str] = {}
    for text in options or ():
        table, equals, value = text.rpartition("=")
        values[_full_name(ctx, table.lower()) if equals else ""] = value
    return values


def _build_keys(columns: Mapping[str, str], sequence: Mapping[str, str]) -> dict[str, Key]:
    if sequence.keys() - columns.keys() and not (columns.get("") and "" not in sequence):
        raise Invalid("--sequence-field needs --primary-key", hint="give --primary-key too")
    names = {table: split_names(text) for table, text in columns.items()}
    keys = {table: Key(columns, sequence.get(table)) for table, columns in names.items() if columns}
    for table in sequence.keys() - keys.keys():
        keys[table] = Key(keys[""].columns, sequence[table])
    return keys
