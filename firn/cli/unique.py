"""`firn hive upgrade --unique`: keys are counted after the upgrade, and without unique ones the table goes back."""

from __future__ import annotations

import typer

from firn.cli.keys import show_repeated
from firn.cli.told import Told
from firn.cli.watch import check_operation, watch_job, watch_operation
from firn.errors import FirnError
from firn.wire import Job, JobStatus


def check_unique(this: Told, table: str, *, keep: bool) -> Job:
    """The count of an upgraded table's keys. Ends the command with 1 where some occur more than once, unless `keep`:
    the table is given back to Hive, which nothing was changed for, if nobody has written to it in the meantime.
    """
    job = watch_job(this, this.client.tables[table].check_keys())
    if job.status is not JobStatus.SUCCEEDED:
        raise FirnError(
            f"{table} is upgraded, but its keys were not counted: {job.error or job.status}",
            hint=f"`firn table check-keys {table}` tries again, `firn hive downgrade {table}` gives it back",
        )
    if not job.result.get("keys"):
        this.show.note(f"every key of {table} occurs once")
        return job
    this.show.note(f"{job.result['keys']:,} keys of {table} occur more than once")
    if not keep:
        _give_back(this, table)
    this.show.emit(job.json_value(), lambda: show_repeated(this.show, job.result))
    if not keep:
        raise typer.Exit(1)
    return job


def _give_back(this: Told, table: str) -> None:
    found = this.client.tables[table].show()
    if found.pending_rows or found.watermark:
        this.show.note(f"{table} stays upgraded: changes were written to it already")
        return
    check_operation(watch_operation(this, this.client.hive.downgrade(table, watch=False)))
    this.show.note(f"{table} is Hive's alone again, as it was; --keep leaves it upgraded")
