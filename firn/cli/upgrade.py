"""`firn hive upgrade`"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from firn.cli import hive
from firn.cli.context import CliContext, command
from firn.cli.hive import (
    PATTERN,
    PropertiesOption,
    SubdirectoriesOption,
    build_properties,
    check_hive,
    split_names,
)
from firn.cli.hive_key_count import show_key_counts
from firn.cli.hive_where import Where, parse_where
from firn.cli.show import size
from firn.cli.suggested_keys import write_suggested_keys
from firn.cli.unique import check_unique
from firn.cli.watch import check_operation, watch_batch, watch_operation
from firn.errors import Invalid
from firn.hive import Key
from firn.protocol.answers.operations import OperationOut, StartedOut
from firn.transport import Json

app = hive.app  # `upgrade` is a command of `firn hive`

_GOOD = ("upgraded", "eligible")
_MAX_KEY_FILE = 4 * 1024 * 1024

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
    bool,
    typer.Option(
        "--unique",
        help="Count duplicate keys: before the upgrade with --dry-run, else after it, with a downgrade if keys repeat.",
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="With --unique: keep the upgraded table even if keys repeat.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show only the report, and change nothing.")]


SomeTables = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE…]", help="DATABASE.TABLE, or a pattern such as 'sales.*'")
]
KeysFile = Annotated[
    Path | None,
    typer.Option("--keys", help="CSV with the columns table, primary_key and, if you like, sequence_field, key_scope."),
]
SuggestedKeys = Annotated[
    Path | None,
    typer.Option(
        "--suggest-keys", help="With --dry-run: write the likely keys of the tables to this file, for --keys."
    ),
]
WaveName = Annotated[str, typer.Option("--name", help="The name of the wave, for people.")]
StopAfter = Annotated[
    int | None, typer.Option("--stop-after", min=1, help="Pause the wave when this many tables have failed.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """The options of many upgrades."""

    only: Mapping[str, str | int | bool] | None
    key_file: str
    name: str
    stop_after: int | None
    suggest_keys: Path | None
    unique: bool


def read_key_file(path: Path | None) -> str:
    """Read the file of keys; the server parses it."""
    if path is None:
        return ""
    try:
        if path.stat().st_size > _MAX_KEY_FILE:
            raise Invalid(f"{path} is larger than 4 MiB", hint="give a line for each table only, or several files")
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not text in UTF-8", hint="save it as CSV in UTF-8") from error
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", hint="give the path of a CSV file") from error


@command(app, "upgrade", waits=True)
def upgrade_hive(  # noqa: PLR0913 -- its options are what people type
    ctx: CliContext,
    tables: SomeTables = None,
    primary_key: PrimaryKeys = None,
    sequence_field: SequenceFields = None,
    *,
    where: Where = None,
    keys_file: KeysFile = None,
    suggest_keys: SuggestedKeys = None,
    name: WaveName = "",
    stop_after: StopAfter = None,
    unique: Unique = False,
    keep: Keep = False,
    subdirectories: SubdirectoriesOption = None,
    properties: PropertiesOption = None,
    dry_run: DryRun = False,
) -> None:
    """Upgrade Hive tables in place. Firn registers their files; none is moved or changed."""
    keys = _build_keys(_parse_by_table(ctx, primary_key), _parse_by_table(ctx, sequence_field))
    tables, only = tables or [], None if where is None else parse_where(where)
    if not tables and only is None:
        raise Invalid("no tables are named", hint="name tables or patterns, or select by --where, such as state=hive")
    if suggest_keys is not None and not dry_run:
        raise Invalid("--suggest-keys only looks for keys", hint="add --dry-run, and upgrade with --keys afterwards")
    is_wave = any(option is not None for option in (suggest_keys, only, keys_file, stop_after)) or bool(name)
    counts_first = unique and dry_run
    are_many = is_wave or counts_first or len(tables) > 1 or any(sign in tables[0] for sign in PATTERN)
    if unique and not dry_run and (not keys or are_many):
        hint = "give one table and --primary-key; with --dry-run the server counts the keys of many before an upgrade"
        raise Invalid("--unique checks the keys of one table after its upgrade", hint=hint)
    if counts_first and not keys and keys_file is None:
        raise Invalid("--unique needs a key", hint="give --primary-key or --keys")
    chosen = build_properties(properties, subdirectories)
    if are_many:
        wave = _Wave(
            only=only,
            key_file=read_key_file(keys_file),
            name=name,
            stop_after=stop_after,
            suggest_keys=suggest_keys,
            unique=counts_first,
        )
        _upgrade_many(ctx, tables, keys, chosen, wave, dry_run=dry_run)
        return
    key = keys.get(_full_name(ctx, tables[0]), keys.get(""))
    if dry_run:
        check_hive(ctx, tables, ",".join(() if key is None else key.columns), subdirectories, properties)
    else:
        ended = _upgrade_table(ctx, tables[0], key, chosen)
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
    ctx: CliContext,
    tables: Sequence[str],
    keys: Mapping[str, Key],
    properties: Mapping[str, str],
    wave: _Wave,
    *,
    dry_run: bool,
) -> None:
    """Start an upgrade of each table, one wave for each catalog, and wait for the ends."""
    operations = list[OperationOut]()
    by_catalog = _group_by_catalog(ctx, tables)
    if wave.only is not None and by_catalog.keys() - {ctx.client.catalog}:
        raise Invalid("--where selects tables of one catalog", hint="name no tables of other catalogs")
    for catalog, names in (by_catalog or {ctx.client.catalog: []}).items():
        own_keys = {name.partition(".")[2]: key for name, key in keys.items() if name.partition(".")[0] == catalog}
        started = ctx.client.hive.upgrade_many(
            names,
            catalog=catalog,
            key=keys.get(""),
            keys=own_keys,
            properties=properties,
            dry_run=dry_run,
            only=wave.only,
            key_file=wave.key_file,
            name=wave.name,
            stop_after=wave.stop_after,
            unique=wave.unique,
        )
        operations += _wait_for_wave(ctx, started, catalog, wave)
    documents = [_build_report(operation) if dry_run else operation.json_value() for operation in operations]
    ctx.show.emit(documents, lambda: _show_operations(ctx, operations))
    if wave.suggest_keys is not None:
        write_suggested_keys(ctx, operations, wave.suggest_keys)
    elif not all(operation.outcome in _GOOD for operation in operations):
        raise typer.Exit(1)


def _wait_for_wave(ctx: CliContext, started: StartedOut, catalog: str, wave: _Wave) -> Iterable[OperationOut]:
    """Wait until a wave ends, or pauses; return its operations."""
    if started.unused_keys:
        ctx.show.note(f"{started.unused_keys:,} keys of the file belong to tables that this wave does not have")
    for name, reason in started.skipped.items():
        ctx.show.note(f"{name} is skipped: {reason}")
    if started.batch is None:
        return []
    ended = watch_batch(ctx, started.batch, catalog, or_paused=wave.stop_after is not None)
    if ended.unfinished:
        ctx.show.note(
            f"the wave has stopped with {ended.unfinished:,} tables to go; "
            f"`firn operation resume --batch {started.batch.id}` goes on"
        )
    return ctx.client.operations.list(batch=started.batch.id)


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
    show_key_counts(ctx, operations)
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
