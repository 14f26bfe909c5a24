"""`firn pipeline show PIPELINE TABLE --held`: rows of a run that waits for approval, before and after its commit."""

from __future__ import annotations

from collections.abc import Mapping

from firn.cli.context import CliContext
from firn.cli.show import moment
from firn.errors import Invalid
from firn.protocol.held_rows import HeldRowsOut, SampledRow


def show_held_rows(ctx: CliContext, pipeline: str, table: str | None) -> None:
    """Print what publishing would do to a table. Raises Invalid without a table."""
    if table is None:
        raise Invalid("--held needs a table", hint=f"firn pipeline show {pipeline} TABLE --held")
    shown = ctx.client.pipelines[pipeline].held(table)
    ctx.show.emit(shown.json_value(), lambda: _show(ctx, shown))


def _show(ctx: CliContext, held: HeldRowsOut) -> None:
    counts = {"rows to write": held.written, "rows to delete": held.deleted}
    ctx.show.facts({"table": held.table, "run": held.job_id, "held": moment(held.held_at), **counts})
    columns = list(dict.fromkeys(name for row in held.rows for name in (row.after or row.before or {})))
    rows = [(_name_change(row), *(_describe_value(row, name) for name in columns)) for row in held.rows]
    ctx.show.table(("change", *columns), rows, none="no sample of the rows")


def _name_change(row: SampledRow) -> str:
    return "new" if row.before is None else "deleted" if row.after is None else "changed"


def _describe_value(row: SampledRow, column: str) -> str:
    """`old → new` if they differ."""
    sides = [_read(side, column) for side in (row.before, row.after) if side is not None]
    return " → ".join(dict.fromkeys(sides))


def _read(side: Mapping[str, str | None], column: str) -> str:
    value = side.get(column)
    return "null" if value is None else value
