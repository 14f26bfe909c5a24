"""`firn hive migration`, `firn hive waves` and `firn hive wave`"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer

from firn.cli import hive
from firn.cli.context import CliContext, command
from firn.cli.hive_where import Where, parse_where
from firn.cli.show import moment, size
from firn.errors import Invalid
from firn.transport import Json

app = hive.app  # these are commands of `firn hive`

AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV for a spreadsheet, one line for each table.")]
SORTS = ("name", "bytes", "rows", "partitions", "last_write", "format", "writer", "blocker")


@command(app, "migration")
def migration_hive(
    ctx: CliContext,
    where: Where = None,
    *,
    tables: Annotated[
        bool, typer.Option("--tables", help="List the matching tables instead of counting them.")
    ] = False,
    sort: Annotated[str, typer.Option(help=f"With --tables: the order, one of {', '.join(SORTS)}.")] = "name",
    limit: Annotated[int, typer.Option(min=1, help="With --tables: the largest number of tables to list.")] = 100,
    csv: AsCsv = False,
) -> None:
    """Show how many tables of the metastore are upgraded, eligible, blocked or failed, and how to fix the blockers."""
    only = parse_where(where)
    if sort not in SORTS:
        raise Invalid(f"--sort is {sort!r}", hint=f"give one of {', '.join(SORTS)}")
    if csv and ctx.json:
        raise Invalid("--csv and --json exclude each other", hint="give one of them")
    if csv:
        sys.stdout.write(ctx.client.hive.migration_csv(only=only))
    elif tables:
        _show_tables(ctx, ctx.show.first(ctx.client.hive.list(only=only, sort=sort), limit))
    else:
        migration = ctx.client.hive.migration(only=only)
        ctx.show.emit(migration, lambda: _show_migration(ctx, migration))


@command(app, "waves")
def waves_hive(
    ctx: CliContext,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of waves to list.")] = 20,
) -> None:
    """List the waves of upgrades and checks, newest first."""
    waves = ctx.show.first(ctx.client.hive.waves(), limit)
    rows = [
        (
            wave["id"],
            wave["name"],
            wave["kind"],
            wave["tables"],
            _counts(wave),
            _remaining(wave),
            moment(wave["created_at"]),
        )
        for wave in waves
    ]
    columns = ("wave", "name", "kind", "tables", "outcomes", "remaining", "started")
    none = "no waves; `firn hive upgrade --where state=hive --dry-run` checks all tables"
    ctx.show.emit(waves, lambda: ctx.show.table(columns, rows, none=none))


@command(app, "wave")
def wave_hive(
    ctx: CliContext,
    wave: Annotated[UUID, typer.Argument(help="The id of the wave, as `firn hive waves` lists it.")],
    *,
    csv: AsCsv = False,
) -> None:
    """Show a wave, or its report with --csv. `firn operation pause|resume|cancel --batch ID` steers it."""
    if csv:
        sys.stdout.write(ctx.client.hive.wave_csv(wave))
        return
    state = ctx.client.hive.wave(wave)
    facts = {
        "wave": state["id"],
        "name": state["name"],
        "kind": state["kind"],
        "selection": _describe_selection(state["selection"]),
        "tables": f"{state['tables']:,}",
        "outcomes": _counts(state),
        "remaining": _remaining(state),
        "stops after": None if state["stop_after"] is None else f"{state['stop_after']:,} failures",
        "stopped": state["stopped"],
        "started": moment(state["created_at"]),
    }
    ctx.show.emit(state, lambda: ctx.show.facts(facts))


def _describe_selection(selection: Json) -> str:
    """The filter as --where takes it."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in selection.items()}
    return " ".join(f"{name}={value}" for name, value in texts.items()) or "all tables"


def _show_migration(ctx: CliContext, migration: Json) -> None:
    states = [
        (state["state"], state["tables"], _size(state["bytes"]), state["rows"])
        for state in migration["states"]
        if state["tables"]
    ]
    ctx.show.table(("state", "tables", "bytes", "rows"), states, none="no matching Hive tables")
    if migration["blockers"]:
        rows = [
            (blocker["code"], blocker["tables"], _size(blocker["bytes"]), blocker["example"], blocker["advice"])
            for blocker in migration["blockers"]
        ]
        ctx.show.line("")
        ctx.show.table(("blocker", "tables", "bytes", "example", "what to do"), rows, none="")
    unchecked = migration["tables"] - migration["checked"]
    ctx.show.note(f"{migration['tables']:,} tables, {migration['published']:,} of them published to Hive")
    if unchecked:
        ctx.show.note(
            f"{unchecked:,} are not checked yet: their sizes and blockers are those that the metastore knows; "
            "`firn hive upgrade --where checked=false --dry-run` checks them"
        )


def _size(count: int | None) -> str | None:
    """None, which the table shows as a dash, if the metastore does not know the size."""
    return None if count is None else size(count)


def _show_tables(ctx: CliContext, tables: Sequence[Json]) -> None:
    rows = [
        (
            f"{table['database']}.{table['name']}",
            table["state"],
            table["format"],
            _size(table["bytes"]),
            table["rows"],
            table["partitions"],
            moment(table["last_write"]),
            table["writer"],
            table["failure"] or "; ".join(blocker["code"] for blocker in table["blockers"]) or None,
        )
        for table in tables
    ]
    columns = ("table", "state", "format", "bytes", "rows", "partitions", "last write", "writer", "problem")
    ctx.show.emit(tables, lambda: ctx.show.table(columns, rows, none="no matching Hive tables"))


def _counts(wave: Json) -> str:
    return ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(wave["outcomes"].items()))


def _remaining(wave: Json) -> str | None:
    seconds = wave["remaining_seconds"]
    if wave["stopped"] is not None:
        return "stopped"
    return None if not seconds else f"about {timedelta(seconds=round(seconds))}"
