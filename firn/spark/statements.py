"""Which tables an SQL statement names, so that those over Hive tables can be brought up to Hive before it runs."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from firn.auto_sync import AutoSync, LinkedTable, find_linked_table
from firn.client import Client
from firn.errors import Invalid, NotFound
from firn.protocol.names import join_name
from firn.spark.sessions import client_of

_RELATION = re.compile(r"'UnresolvedRelation \[(.*?)\]")
_CATALOG_AND_NAMESPACE = 2
_WRITES = frozenset({"InsertIntoStatement", "UpdateTable", "DeleteFromTable", "MergeIntoTable"})
"""Spark's parsed plans that write to a table."""


def tables_of(spark: SparkSession, statement: str) -> list[tuple[str, ...]]:
    """Names in a statement, with their catalogs; also those of views and of the statement's own WITH clauses.

    None of what cannot be parsed: running it tells why. Names that hold a comma and a blank are not found.
    """
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    except PySparkException:
        return []
    named = (tuple(found.split(", ")) for found in _RELATION.findall(plan.treeString()))
    return list(dict.fromkeys(_qualified(spark, parts) for parts in named))


def written_table(spark: SparkSession, statement: str) -> tuple[str, ...] | None:
    """The table that an INSERT, UPDATE, DELETE or MERGE statement writes to; None for any other statement."""
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    except PySparkException:
        return None
    if plan.getClass().getSimpleName() not in _WRITES:
        return None
    target = _RELATION.search(plan.treeString())  # the plan of each of them names its target first
    return None if target is None else _qualified(spark, tuple(target[1].split(", ")))


def before_statement(spark: SparkSession, statement: str, auto_sync: AutoSync | str) -> None:
    """Bring up to Hive what the statement names and is over a Hive table; errors as of `LinkedTable.sync`."""
    what = AutoSync(auto_sync)
    for parts in [] if what is AutoSync.NONE else tables_of(spark, statement):
        try:
            client, name = client_of(spark, join_name(parts))
        except Invalid:  # in no catalog of ours
            continue
        with client:
            found = _linked(client, name)
            if found is not None:
                found.sync(what)


def _linked(client: Client, name: str) -> LinkedTable | None:
    try:
        return find_linked_table(client, name)
    except NotFound:  # a view of an engine's, or a name of the statement's own
        return None


def _qualified(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, ...]:
    """As Spark finds it: in the current namespace, or in the current catalog."""
    if len(parts) == 1:
        return (spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), *parts)
    is_whole = len(parts) > _CATALOG_AND_NAMESPACE and spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None
    return parts if is_whole else (spark.catalog.currentCatalog(), *parts)
