"""Looks up rows of a keyed table for the rows of a batch (docs/streams.md#lookups)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.changes import Position
from firn.client import Client
from firn.errors import Invalid, Refused
from firn.names import split_name
from firn.protocol.answers.changes import ChangePlan
from firn.protocol.names import quote_name
from firn.spark.changes import Feed, plan_feed
from firn.spark.sessions import client_of

MOST_CHANGED = 0.2
"""If more of the cached rows have changed, the table is read anew."""
MOST_PATCHES = 20
"""Each patch makes the plan of the cached frame longer."""
_LOCK = threading.Lock()


@dataclass(slots=True)
class _Cached:
    """The rows of a table at a version, held in Spark's memory."""

    version: int
    rows: DataFrame
    count: int
    patches: int = 0


_CACHE: dict[tuple[str, ...], _Cached] = {}


def enrich(
    df: DataFrame,
    table: str,
    *,
    on: str | Sequence[str],
    columns: Sequence[str] | None = None,
    as_of: Position | None = None,
    cache: bool = False,
) -> DataFrame:
    """Add columns of a keyed table to the rows of `df` that equal it in the columns `on`: a left join.

    Call it inside of `foreachBatch`: each call sees the table's newest version, with pending changes. By default it
    adds all other columns. `as_of` is a version or a time whose rows count instead. With `cache`, Spark keeps the rows
    in memory; later calls read only what has changed since, or the whole table if that is more than a fifth of it.

    Raises Invalid for columns that the table lacks or `df` has already, and Refused if `as_of` has expired.
    """
    keys = [on] if isinstance(on, str) else list(on)
    client, name = client_of(df.sparkSession, table)
    with client:
        if as_of is None and cache:
            rows = _read_cached(df, client, name, table, keys, columns)
        else:
            version = client.tables[name].show().version if as_of is None else as_of
            plan = plan_feed(client, name, table, version or 0, version or 0)
            rows = Feed(df.sparkSession, split_name(table), plan).read_all(plan.until)
            rows = rows.select(*map(quote_name, _choose(plan, keys, columns, df)))
    return df.join(rows, keys, "left")


def _choose(plan: ChangePlan, on: Sequence[str], columns: Sequence[str] | None, df: DataFrame) -> list[str]:
    """The columns of the table that the join needs."""
    added = [name for name in plan.columns if name not in on] if columns is None else list(columns)
    if missing := [name for name in (*on, *added) if name not in plan.columns]:
        raise Invalid(f"the table has no column {missing[0]!r}", hint=f"the columns are {', '.join(plan.columns)}")
    if twice := [name for name in added if name in df.columns or name in on]:
        raise Invalid(f"the rows have a column {twice[0]!r} already", hint="name the columns to add: columns=[…]")
    return [*on, *added]


def _read_cached(
    df: DataFrame, client: Client, name: str, table: str, on: Sequence[str], columns: Sequence[str] | None
) -> DataFrame:
    """The needed columns of the cached frame, after it was brought to the newest version."""
    spark = df.sparkSession
    with _LOCK:  # two queries may look up the same table
        newest = client.tables[name].show().version or 0
        plan = plan_feed(client, name, table, newest, newest)
        needed = _choose(plan, on, columns, df)
        kept = [*dict.fromkeys([*plan.primary_key, *needed])]
        entry = (spark.sparkContext.applicationId or "", client.url, name, *kept)
        cached = _CACHE.get(entry)
        if cached is None or cached.version != newest:
            fresh = None if cached is None else _patch(df, client, name, table, cached, kept)
            _CACHE[entry] = fresh or _load(Feed(spark, split_name(table), plan), kept)
            if cached is not None:
                cached.rows.unpersist()
        return _CACHE[entry].rows.select(*map(quote_name, needed))


def _load(feed: Feed, columns: Sequence[str]) -> _Cached:
    rows = feed.read_all(feed.plan.until).select(*map(quote_name, columns)).persist()
    return _Cached(version=feed.plan.until.version, rows=rows, count=rows.count())


def _patch(
    df: DataFrame, client: Client, name: str, table: str, cached: _Cached, columns: Sequence[str]
) -> _Cached | None:
    """The cached rows, with those of keys that have changed since read anew; None if reading all is cheaper.

    The keys are a superset of those whose rows differ, which does no harm: all of their rows are replaced.
    """
    if cached.patches >= MOST_PATCHES:
        return None
    try:
        plan = plan_feed(client, name, table, cached.version, None)
    except Refused:  # the history since has expired, or the table was dropped and created again
        return None
    feed = Feed(df.sparkSession, split_name(table), plan)
    keys = feed.list_changed_keys().persist()
    try:
        if keys.count() > MOST_CHANGED * cached.count:
            return None
        of_cached = [F.col(quote_name(key)) == keys[f"k{number}"] for number, key in enumerate(plan.primary_key)]
        others = cached.rows.join(F.broadcast(keys), of_cached, "left_anti")
        changed = feed.read_state(plan.until, keys).select("row.*").select(*map(quote_name, columns))
        rows = others.unionByName(changed).persist()
        return _Cached(version=plan.until.version, rows=rows, count=rows.count(), patches=cached.patches + 1)
    finally:
        keys.unpersist()
