"""What a session's reads and writes have to do with the Hive table under a table: nothing, unless they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from firn.errors import FirnError, Invalid
from firn.linked import AutoSync, Linked, linked
from firn.spark.errors import NotPublished
from firn.spark.sessions import client_of

if TYPE_CHECKING:
    from firn.spark.write import Written


def before_read(spark: SparkSession, table: str, auto_sync: AutoSync | str) -> None:
    """Bring the table up to Hive as far as asked; ValueError for another `auto_sync`, errors as of `Linked.follow`."""
    what = AutoSync(auto_sync)
    if what is AutoSync.NONE:
        return
    client, name = client_of(spark, table)
    with client:
        if (found := linked(client, name)) is not None:
            found.follow(what)


def before_write(spark: SparkSession, table: str, auto_sync: AutoSync | str, *, publish: bool) -> None:
    """The same; Invalid where the write is to be published and there is no Hive table, before anything is written."""
    if publish:
        client, name = client_of(spark, table)
        with client:
            _link(linked(client, name), table)
    before_read(spark, table, auto_sync)


def published(spark: SparkSession, written: Written) -> Written:
    """Once Hive's readers see what was written; NotPublished when they do not."""
    try:
        client, name = client_of(spark, written.table)
        with client:
            _link(linked(client, name), written.table).publish()
    except FirnError as error:
        done = f"{written.table}: batch {written.batch!r} of writer {written.writer!r} is in the table"
        hint = f" ({error.hint})" if error.hint else ""
        raise NotPublished(f"{done}. {error.message}{hint}") from error
    return written


def _link(found: Linked | None, table: str) -> Linked:
    if found is None:
        raise Invalid(
            f"{table} is over no Hive table: there is nobody to publish to", hint="write without publish=True"
        )
    return found
