"""What a session's reads and writes have to do with the Hive table under a table: nothing, unless they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from firn.auto_sync import AutoSync, LinkedTable, find_linked_table
from firn.errors import FirnError, Invalid
from firn.spark.errors import NotPublished
from firn.spark.sessions import client_of

if TYPE_CHECKING:
    from firn.spark.write import Written


def before_read(spark: SparkSession, table: str, auto_sync: AutoSync | str) -> None:
    """Sync the table with Hive; ValueError for another `auto_sync`, errors as of `LinkedTable.sync`."""
    what = AutoSync(auto_sync)
    if what is AutoSync.NONE:
        return
    client, name = client_of(spark, table)
    with client:
        if (found := find_linked_table(client, name)) is not None:
            found.sync(what)


def before_write(spark: SparkSession, table: str, auto_sync: AutoSync | str, *, publish: bool) -> None:
    """The same; Invalid where the write is to be published and there is no Hive table, before anything is written."""
    if publish:
        client, name = client_of(spark, table)
        with client:
            _link(find_linked_table(client, name), table)
    before_read(spark, table, auto_sync)


def published(spark: SparkSession, written: Written) -> Written:
    """Once Hive's readers see what was written; NotPublished when they do not."""
    try:
        client, name = client_of(spark, written.table)
        with client:
            _link(find_linked_table(client, name), written.table).publish()
    except FirnError as error:
        done = f"{written.table}: batch {written.batch!r} of writer {written.writer!r} is in the table"
        hint = f" ({error.hint})" if error.hint else ""
        raise NotPublished(f"{done}. {error.message}{hint}") from error
    return written


def _link(found: LinkedTable | None, table: str) -> LinkedTable:
    if found is None:
        raise Invalid(
            f"{table} is over no Hive table: there is nobody to publish to", hint="write without publish=True"
        )
    return found
