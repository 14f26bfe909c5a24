"""Syncs and publishes around a session's reads and writes of linked tables, if the caller asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from firn.auto_sync import AutoSync, LinkedTable, find_linked_table
from firn.errors import FirnError, Invalid
from firn.spark.errors import NotPublished
from firn.spark.sessions import client_of

if TYPE_CHECKING:
    from firn.spark.write import Written


def sync_before_read(spark: SparkSession, table: str, auto_sync: AutoSync | str) -> None:
    """Sync the table with Hive. Raises ValueError for another `auto_sync`, and the errors of `LinkedTable.sync`."""
    level = AutoSync(auto_sync)
    if level is AutoSync.NONE:
        return
    client, name = client_of(spark, table)
    with client:
        if (linked := find_linked_table(client, name)) is not None:
            linked.sync(level)


def sync_before_write(spark: SparkSession, table: str, auto_sync: AutoSync | str, *, publish: bool) -> None:
    """Sync the table before a write. With `publish`, raise Invalid if there is no Hive table to publish to."""
    if publish:
        client, name = client_of(spark, table)
        with client:
            _require_linked(find_linked_table(client, name), table)
    sync_before_read(spark, table, auto_sync)


def publish_written(spark: SparkSession, written: Written) -> Written:
    """Publish the written batch and wait until Hive's readers see it; raise NotPublished if they do not."""
    try:
        client, name = client_of(spark, written.table)
        with client:
            _require_linked(find_linked_table(client, name), written.table).publish()
    except FirnError as error:
        done = f"{written.table}: batch {written.batch!r} of writer {written.writer!r} is in the table"
        hint = f" ({error.hint})" if error.hint else ""
        raise NotPublished(f"{done}. {error.message}{hint}") from error
    return written


def _require_linked(linked: LinkedTable | None, table: str) -> LinkedTable:
    if linked is None:
        raise Invalid(
            f"{table} is not linked to a Hive table, so it cannot be published", hint="write without publish=True"
        )
    return linked
