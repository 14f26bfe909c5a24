"""What a sync job is told: which Hive files to read, as what, and which partitions to build anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.hive.drift import Additions, Dropped, New, Rebuild
from catalog.hive.ground import Ground, ListedFile
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import known_aliases
from catalog.hive.model import HiveColumn
from catalog.hive.names import NULL_NAME, partition_values
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.relation import Relation
from server.service.hive.look import Looked
from server.service.hive.state import HiveState, Unit
from server.service.hive.upgrade import join

WRITER = "firn-hive-sync"


def sync_task(
    relation: Relation,
    state: HiveState,
    found: Looked,
    grounds: Mapping[str, Ground],
    link: Mapping[str, Any],
    base: Json,
) -> Json:
    """The facts of one sync.

    `mode` is `upsert` when files only came: their rows are appended to the change store. It is `rebuild` when a
    partition is no longer what the ground says: its rows are those of all files that Hive lists, then a replay of the
    changes that Hive was never given, but for changes out of files that are no longer listed (`vanished`).
    """
    names = _current_names(base)
    return {
        "mode": "upsert" if found.only_additions else "rebuild",
        "writer": WRITER,
        "batch": f"{relation.id}-{link['generation'] + 1}",
        "columns": [_column(column, names) for column in state.table.columns],
        "partition_columns": [_column(column, names) for column in state.table.partition_columns],
        "units": [
            _unit(name, change, found, grounds) | {"values": _values(state, name)}
            for name, change in found.changed.items()
        ],
    }


def source_of(location: str, file: ListedFile) -> str:
    """The identity of a Hive file, as changes carry it in `_source` (rule 3.3)."""
    return f"{location}#{file.mtime_ns}"


def _unit(name: str, change: Additions | New | Rebuild | Dropped, found: Looked, grounds: Mapping[str, Ground]) -> Json:
    ground = grounds.get(name)
    unit = found.units.get(name)
    listed = [] if unit is None or isinstance(change, Dropped) else _listed(unit, change.files)
    vanished = change.removed if isinstance(change, Rebuild | Dropped) else ()
    return {
        "name": name,
        "rebuild": isinstance(change, Rebuild | Dropped),
        "files": listed,
        "added": _added(unit, change),
        "vanished": [source_of(join(ground.location, file.path), file) for file in vanished if ground is not None],
    }


def _added(unit: Unit | None, change: Additions | New | Rebuild | Dropped) -> list[Json]:
    """Files that were not there before: their keys may live in other partitions."""
    if unit is None or isinstance(change, Dropped):
        return []
    return _listed(unit, change.added if isinstance(change, Rebuild) else change.files)


def _listed(unit: Unit, files: tuple[ListedFile, ...]) -> list[Json]:
    locations = [(join(unit.location, file.path), file) for file in files]
    return [{"location": location, "source": source_of(location, file)} for location, file in locations]


def _values(state: HiveState, name: str) -> list[str | None]:
    """A partition's values as Hive spells them, None for null; a dropped one's are in its name alone."""
    columns = state.table.partition_columns
    return [None if value == NULL_NAME else value for value in partition_values(columns, name)] if columns else []


def _current_names(base: Json) -> dict[str, str]:
    """The name that each Hive column has in the table now: Firn's side may have renamed it."""
    by_id = {field["id"]: field["name"] for field in current_schema(base)["fields"]}
    mapping = base["properties"].get(NAME_MAPPING)
    aliases = known_aliases(mapping) if mapping else []
    names = {alias.lower(): by_id[field_id] for field_id, alias in aliases if field_id in by_id}
    return {**names, **{name.lower(): name for name in by_id.values()}}


def _column(column: HiveColumn, names: Mapping[str, str]) -> Json:
    """`name` is None for a column that the table has no more."""
    return {"hive": column.name, "type": column.type, "name": names.get(column.name.lower())}
