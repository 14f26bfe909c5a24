"""Finds the tables of an SQL statement, so that linked tables can be synced before it runs."""

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


def find_tables(spark: SparkSession, statement: str) -> list[tuple[str, ...]]:
    """Find the names in a statement, with their catalogs; also those of views and of the statement's own WITH clauses.

    A statement that cannot be parsed has none: Spark explains the error when it runs. A name with a comma and a blank
    is not found.
    """
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    except PySparkException:
        return []
    named = (tuple(match.split(", ")) for match in _RELATION.findall(plan.treeString()))
    return list(dict.fromkeys(_qualified(spark, parts) for parts in named))


def sync_before_statement(spark: SparkSession, statement: str, auto_sync: AutoSync | str) -> None:
    """Sync the linked tables of a statement. Raises the errors of `LinkedTable.sync`."""
    level = AutoSync(auto_sync)
    for parts in [] if level is AutoSync.NONE else find_tables(spark, statement):
        try:
            client, name = client_of(spark, join_name(parts))
        except Invalid:  # not in a Firn catalog
            continue
        with client:
            linked = _linked(client, name)
            if linked is not None:
                linked.sync(level)


def _linked(client: Client, name: str) -> LinkedTable | None:
    try:
        return find_linked_table(client, name)
    except NotFound:  # an engine's view, or a name that the statement itself defines
        return None


def _qualified(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The full name, as Spark resolves it: in the current namespace, or in the current catalog."""
    if len(parts) == 1:
        return (spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), *parts)
    has_catalog = (
        len(parts) > _CATALOG_AND_NAMESPACE and spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None
    )
    return parts if has_catalog else (spark.catalog.currentCatalog(), *parts)
