"""Directories that Hive names and that are another table's of Firn's.

Who may set a location in Hive would else read that table's files through a sync, with this server's rights.
"""

from __future__ import annotations

from catalog.ports.store import UnitOfWork
from server.service.hive.books import Linked
from server.service.hive.state import HiveState
from server.service.locations import hive_in_tables


def foreign_directories(uow: UnitOfWork, linked: Linked, state: HiveState) -> tuple[str, ...]:
    """Of those that Hive has named since the last sync."""
    baselines = linked.baselines
    new = [one for one in state.units if one.name not in baselines or baselines[one.name].location != one.location]
    catalog, full_name = linked.relation.catalog, state.table.full_name
    return tuple(hive_in_tables(uow, catalog, full_name, state.directories_of(new), below=False))
