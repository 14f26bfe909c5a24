"""`firn quarantine list|show|retry|drop`: the records of a log that are no changes of its table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

import firn.spark
from firn.cli.context import CliContext, command
from firn.cli.logs import Master, Memory
from firn.cli.show import moment
from firn.cli.spark_session import open_session
from firn.cli.tables import TableArg
from firn.errors import NotFound
from firn.protocol.answers.quarantine import QuarantineOut

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(help="List, show, retry and drop the bad records of logs.", no_args_is_help=True)
_LISTED = ["partition", "offset", "timestamp", "reason", "column", "at"]


@command(app, "list")
def list_records(
    ctx: CliContext,
    table: TableArg,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of records to print.")] = 20,
) -> None:
    """Count the bad records of a table by reason, and list the newest of them."""
    quarantine = ctx.client.tables[table].log.quarantine.show()
    rows = _read(ctx, table, quarantine, _LISTED).to_pylist() if quarantine.rows else []
    rows.sort(key=lambda row: (row["at"], row["partition"], row["offset"]), reverse=True)
    reasons = Counter((row["reason"], row["column"]) for row in rows).most_common()
    counted = [{"reason": reason, "column": column, "records": count} for (reason, column), count in reasons]
    shown = [_to_json(row) for row in rows[:limit]]

    def describe() -> None:
        counts = [(group["records"], group["reason"], group["column"]) for group in counted]
        if counts:
            ctx.show.table(("records", "reason", "column"), counts, none="")
        cells = [
            (row["partition"], row["offset"], row["reason"], row["column"], moment(row["at"])) for row in rows[:limit]
        ]
        ctx.show.table(("partition", "offset", "reason", "column", "met at"), cells, none="no bad records")

    ctx.show.emit({**quarantine.json_value(), "reasons": counted, "records": shown}, describe)


@command(app, "show")
def show_record(
    ctx: CliContext,
    table: TableArg,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Partition of the record.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Offset of the record.")],
) -> None:
    """Show a bad record as a whole. Of a topic that was created again, there may be several."""
    quarantine = ctx.client.tables[table].log.quarantine.show()
    where = f"partition = {partition} AND offset = {offset}"
    rows = _read(ctx, table, quarantine, None, where).to_pylist() if quarantine.rows else []
    if not rows:
        raise NotFound(
            f"the quarantine of {table} has no record at offset {offset} of partition {partition}",
            hint=f"`firn quarantine list {table}` lists the newest records",
        )
    records = [_to_json(row) for row in rows]

    def describe() -> None:
        for record in records:
            cells = [(name, None if value is None else str(value)) for name, value in record.items()]
            ctx.show.table(("field", "value"), cells, none="")

    ctx.show.emit(records, describe)


@command(app, "retry")
def retry(ctx: CliContext, table: TableArg, *, master: Master = "local[2]", memory: Memory = "2g") -> None:
    """Send the bad records of a table again, in the order of the topic. Those that are still bad stay."""
    name = str(ctx.client.name(table))
    with open_session(ctx, master=master, memory=memory) as spark:
        retried = firn.spark.retry_quarantine(name, spark)
    result = {"sent": retried.sent, "still_bad": retried.still_bad, "waiting": retried.waiting}
    order = "the sequence field orders them" if retried.is_ordered_by_field else "they win over rows that came since"
    order = "rows that are there stay" if retried.is_insert_only else order
    order = order if retried.sent else "nothing has changed"
    text = f"{retried.sent:,} records went to {table}: {order}; {retried.still_bad:,} are still bad"
    waiting = f"; {retried.waiting:,} wait until a drain has passed them" if retried.waiting else ""
    ctx.show.emit(result, lambda: ctx.show.line(text + waiting))


@command(app, "drop")
def drop(
    ctx: CliContext,
    table: TableArg,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Drop without asking.")] = False,
) -> None:
    """Delete all bad records of a table. They stay missing in the table."""
    quarantine = ctx.client.tables[table].log.quarantine
    seen = quarantine.show()
    if seen.snapshot_id is None or not seen.rows:
        ctx.show.emit({"dropped": 0}, lambda: ctx.show.line(f"{table} has no bad records"))
        return
    if not yes:
        typer.confirm(f"Delete {seen.rows:,} records that are not in {table}?", abort=True, err=True)
    dropped = quarantine.drop(seen.snapshot_id)
    ctx.show.emit({"dropped": dropped.rows}, lambda: ctx.show.line(f"{dropped.rows:,} bad records are dropped"))


def _read(
    ctx: CliContext, table: str, quarantine: QuarantineOut, columns: list[str] | None, where: str | None = None
) -> pa.Table:
    name = f"{ctx.client.name(table).catalog}.{quarantine.table}"
    return ctx.client.scan(name, filter=where, columns=columns).to_arrow()


def _to_json(row: dict[str, Any]) -> dict[str, Any]:
    """The row with bytes as text; bytes that are no UTF-8 are escaped."""
    headers = row.get("headers") or []
    shown = {name: _show(value) for name, value in row.items() if name != "headers"}
    return shown | ({"headers": [{name: _show(v) for name, v in h.items()} for h in headers]} if headers else {})


def _show(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value.isoformat() if hasattr(value, "isoformat") else value
