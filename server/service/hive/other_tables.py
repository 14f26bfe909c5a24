"""Directories that Hive names and that are another table's of Firn's.

Who may set a location in Hive would else read that table's files through a sync, with this server's rights.
"""

from __future__ import annotations

from catalog.ports.store import UnitOfWork
from server.service.hive.hive_state import HiveState
from server.service.hive.link_state import LinkedTable
from server.service.locations.location_rule import find_hive_tables_inside


def find_other_tables(uow: UnitOfWork, linked: LinkedTable, state: HiveState) -> tuple[str, ...]:
    """Of those that Hive has named since the last sync."""
    baselines = linked.baselines
    new = [one for one in state.units if one.name not in baselines or baselines[one.name].location != one.location]
    catalog, full_name = linked.relation.catalog, state.table.full_name
    return tuple(find_hive_tables_inside(uow, catalog, full_name, state.directories_of(new), below=False))
