"""The link of a table, and its drift."""

from __future__ import annotations

from typing import Any

from catalog.hive.link import HiveLink
from server.service.hive.link_state import load_link
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles


def drift_of(beside: BesideHive, table: HiveFiles) -> Any:
    drift = link_of(beside, table).drift
    return None if drift is None else drift.message


def link_of(beside: BesideHive, table: HiveFiles) -> HiveLink:
    with beside.database.reading() as uow:
        relation = uow.relations.find(LAKE, beside.table_name(table))
        assert relation is not None
        return load_link(uow, relation.id)
