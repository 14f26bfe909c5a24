"""`firn hive upgrade`"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from firn.cli import hive
from firn.cli.context import CliContext, command
from firn.cli.hive import PATTERN, SubdirectoriesOption, Tables, check_hive, names, properties_of
from firn.cli.show import size
from firn.cli.unique import check_unique
from firn.cli.watch import check_operation, watch_batch, watch_operation
from firn.errors import Invalid
from firn.hive import Key
from firn.protocol.answers.operations import OperationOut
from firn.transport import Json

app = hive.app  # a command of `firn hive` too; it fills a file of its own

_GOOD = ("upgraded", "eligible")


@command(app, "upgrade", waits=True)
def upgrade_hive(  # noqa: PLR0913 -- its options are what people type
    ctx: CliContext,
    tables: Tables,
    primary_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLE=]COLUMNS",
            help="Key columns, separated by commas, for all tables or for TABLE; may be repeated.",
        ),
    ] = None,
    sequence_field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLE=]COLUMN",
            help="Column that decides which change is newer, for all tables or for TABLE; may be repeated.",
        ),
    ] = None,
    *,
    unique: Annotated[
        bool, typer.Option("--unique", help="Check the keys after the upgrade, and downgrade the table if keys repeat.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --unique: keep the upgraded table even if keys repeat.")
    ] = False,
    subdirectories: SubdirectoriesOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show only the report, and change nothing.")] = False,
) -> None:
    """Upgrade Hive tables in place. Firn registers their files; none is moved or changed."""
    keys = _keys(_by_table(ctx, primary_key), _by_table(ctx, sequence_field))
    are_many = len(tables) > 1 or any(sign in tables[0] for sign in PATTERN)
    if unique and (dry_run or not keys or are_many):
        raise Invalid(
            "--unique checks the keys of one table after its upgrade",
            hint="name one table and --primary-key, without --dry-run; `firn table check-keys` checks other tables",
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
    """Each on its own; those of one catalog are one batch."""
    show, found = ctx.show, list[OperationOut]()
    for catalog, some in _by_catalog(ctx, tables).items():
        mine = {name.partition(".")[2]: key for name, key in keys.items() if name.partition(".")[0] == catalog}
        started = ctx.client.hive.upgrade_many(
            some, catalog=catalog, key=keys.get(""), keys=mine, properties=properties, dry_run=dry_run
        )
        for name, reason in started.skipped.items():
            show.note(f"{name} is passed over: {reason}")
        if started.batch is not None:
            watch_batch(ctx, started.batch, catalog)
            found += ctx.client.operations.list(batch=started.batch.id)
    told = [_report(one) if dry_run else one.json_value() for one in found]
    show.emit(told, lambda: _tell(ctx, found))
    if not all(one.outcome in _GOOD for one in found):
        raise typer.Exit(1)


def _report(operation: OperationOut) -> Json:
    """As `check` tells of one table."""
    told = {"table": operation.target, "eligible": operation.outcome == "eligible", "error": operation.error}
    return {**told, **operation.result}


def _tell(ctx: CliContext, found: Sequence[OperationOut]) -> None:
    """One line a table; what is in the way comes with what to do."""
    rows = [
        (
            one.target,
            one.outcome,
            one.result.get("partitions"),
            one.result.get("files"),
            size(one.result["bytes"]) if "bytes" in one.result else None,
            "; ".join(_in_the_way(one)) or None,
        )
        for one in found
    ]
    columns = ("table", "outcome", "partitions", "files", "bytes", "why not, and what to do")
    ctx.show.table(columns, rows, none="nothing to do: every table that matches is upgraded already")
    counts: dict[str, int] = defaultdict(int)
    for one in found:
        counts[one.outcome] += 1
    ctx.show.note(", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items())))


def _in_the_way(operation: OperationOut) -> list[str]:
    checks = operation.result.get("checks", ())
    blockers = [
        f"{check['code']}: {check['message']}. {check['advice']}" for check in checks if check["status"] == "blocked"
    ]
    if blockers or operation.error is None:
        return blockers
    return [operation.error if operation.hint is None else f"{operation.error}. {operation.hint}"]


def _by_catalog(ctx: CliContext, tables: Sequence[str]) -> dict[str, list[str]]:
    found = defaultdict[str, list[str]](list)
    for table in tables:
        catalog, _, name = _full_name(ctx, table).partition(".")
        found[catalog].append(name)
    return dict(found)


def _full_name(ctx: CliContext, table: str) -> str:
    """With its catalog; a pattern need not have a dot."""
    return str(ctx.client.name(table)) if "." in table else f"{ctx.client.catalog}.{table}"


def _by_table(ctx: CliContext, given: Sequence[str] | None) -> dict[str, str]:
    """What is given for single tables, and under '' what is for all others."""
    found: dict[str, str] = {}
    for one in given or ():
        table, equals, value = one.rpartition("=")
        found[_full_name(ctx, table.lower()) if equals else ""] = value
    return found


def _keys(columns: Mapping[str, str], sequence: Mapping[str, str]) -> dict[str, Key]:
    if sequence.keys() - columns.keys() and not (columns.get("") and "" not in sequence):
        raise Invalid("--sequence-field orders the changes of keys", hint="give --primary-key too")
    keys = {table: Key(names(listed), sequence.get(table)) for table, listed in columns.items() if names(listed)}
    for table in sequence.keys() - keys.keys():
        keys[table] = Key(keys[""].columns, sequence[table])
    return keys
