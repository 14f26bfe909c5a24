"""What a sync job is told: which Hive files to read, as what, and which partitions to build anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catalog.files.data_file import FileFormat
from catalog.hive.baseline import ListedFile, PartitionBaseline
from catalog.hive.change_sources import source_of
from catalog.hive.drift import DroppedPartition, Rebuild
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import read_aliases
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.partition_names import NULL_NAME, parse_partition_name
from catalog.hive.publishing import count_given_directories
from catalog.hive.sync_decisions import Changed, LateChange
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from server.service.hive.change_set import ChangeSet
from server.service.hive.hive_state import HiveState, Unit, join
from server.service.hive.link_state import LinkedTable, next_sources

WRITER = "firn-hive-sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one sync takes over of what a look has found."""

    found: ChangeSet
    changed: Mapping[str, Changed]
    late: Sequence[LateChange] = ()
    again: Mapping[str, PartitionBaseline] = field(default_factory=dict)
    """Partitions that a rebuild reads again though they are as they were (decision 39)."""


def build_sync_task(linked: LinkedTable, state: HiveState, taken: Taken, base: Json) -> Json:
    """The facts of one sync.

    `mode` is `upsert` when files only came: their rows are appended to the change store. It is `rebuild` when
    partitions are no longer what the ground says: their rows are those of all files that Hive lists, then a replay of
    the changes that Hive was never given, but for changes out of files that are no longer listed (`dead`).
    """
    names, found = current_names(base), taken.found
    is_rebuild = any(isinstance(change, Rebuild | DroppedPartition) for change in taken.changed.values())
    read = [(name, _files(found.units.get(name), change, linked)) for name, change in taken.changed.items()]
    read += [(one.name, _come(one.directory.location, one.files)) for one in taken.late]
    read += [(name, _known(baseline)) for name, baseline in taken.again.items()]
    units = [
        (name, knew, files) for name, some in read for knew, files in _by_knowledge(some, _knew(linked, found, name))
    ]
    return {
        "mode": "rebuild" if is_rebuild else "upsert",
        "writer": WRITER,
        "batch": f"{linked.relation.id}-{linked.link.generation + 1}",
        "columns": [told_column(column, names) for column in state.table.columns],
        "partition_columns": [told_column(column, names) for column in state.table.partition_columns],
        "units": [
            {
                "values": told_values(state.table, name),
                "files": [file.to_json() for file in files],
                "format": _format(found.units.get(name)),
                "knew": knew,
            }
            for name, knew, files in units
        ],
        "dead": sorted(next_sources(linked, found, taken.changed, taken.late).dead),
        **_given(linked, taken, state.table, min((knew for _, knew, files in units if files), default=None)),
    }


def _given(linked: LinkedTable, taken: Taken, table: HiveTable, least: int | None) -> Json:
    """What is replayed: changes after `since`, and of those not what Hive's side knew, told apart by partition.

    By a sequence field older changes lose by themselves: only what all partitions have been given is left out there.
    Files hold the changes up to `least` or later ones.
    """
    baselines, most = linked.baselines, count_given_directories(linked.baselines.values(), linked.given)
    has_sequence = linked.spec is None or linked.spec.sequence_field is not None
    if not table.partition_columns or has_sequence:
        rebuilt = [baselines[name] for name in taken.changed if name in baselines]
        told = min([linked.given, *(one.published_through for one in rebuilt)])
        since = told if least is None else min(told, least)
        return {"since": since, "given": since if has_sequence else told, "behind": []}
    since = min([linked.given, *(one.published_through for one in baselines.values())])
    behind = defaultdict[int, list[list[str | None]]](list)
    for name, baseline in baselines.items():
        if baseline.published_through < most:
            behind[baseline.published_through].append(told_values(table, name))
    return {
        "since": since if least is None else min(since, least),
        "given": most,
        "behind": [{"through": through, "partitions": partitions} for through, partitions in sorted(behind.items())],
    }


def _knew(linked: LinkedTable, found: ChangeSet, name: str) -> int:
    """The changes that whoever wrote what Hive lists in a partition could know; in a new one, what all others had."""
    baseline = linked.baselines.get(name)
    return linked.given if baseline is None or name in found.asleep else baseline.published_through


@dataclass(frozen=True, slots=True)
class _Read:
    """A file whose rows are read; keys of `added` ones may live in other partitions."""

    location: str
    file: ListedFile
    added: bool

    def to_json(self) -> Json:
        source, mtime_ns = source_of(self.location, self.file), self.file.mtime_ns
        return {"location": self.location, "source": source, "mtime_ns": mtime_ns, "added": self.added}


def _by_knowledge(files: Sequence[_Read], knew: int) -> Iterator[tuple[int, list[_Read]]]:
    """The files of a partition that contain the same changes: moved ones those of where they were written for."""
    by_knowledge: dict[int, list[_Read]] = {} if files else {knew: []}
    for one in files:
        by_knowledge.setdefault(knew if one.file.knew is None else one.file.knew, []).append(one)
    yield from by_knowledge.items()


def _files(unit: Unit | None, change: Changed, linked: LinkedTable) -> list[_Read]:
    """The files to read; `added` ones were not there before."""
    if unit is None or isinstance(change, DroppedPartition):
        return []
    added = {file.path for file in (change.added if isinstance(change, Rebuild) else change.files)}
    added -= _decided_before(change, linked) if isinstance(change, Rebuild) else set()
    return [_Read(join(unit.location, file.path), file, file.path in added) for file in change.files]


def _decided_before(change: Rebuild, linked: LinkedTable) -> set[str]:
    """Moved files whose rows are base's, or have lost to rows of other partitions: they win over none of them now.

    Rows that went into the change store are not: these changes are left out from now on.
    """
    live = linked.link.sources.live
    return {
        path
        for path, removed in change.moved.items()
        if all(source_of(join(one.location, one.file.path), one.file) not in live for one in removed)
    }


def _format(unit: Unit | None) -> str:
    """The format of a partition's files; a dropped one has none to read."""
    return str(FileFormat.PARQUET if unit is None else unit.format)


def _come(location: str, files: Sequence[ListedFile]) -> list[_Read]:
    return [_Read(join(location, file.path), file, added=True) for file in files]


def _known(baseline: PartitionBaseline) -> list[_Read]:
    return [_Read(join(baseline.location, file.path), file, added=False) for file in baseline.files]


def told_values(table: HiveTable, name: str) -> list[str | None]:
    """A partition's values as Hive spells them, None for null; a dropped one's are in its name alone."""
    columns = table.partition_columns
    return [None if value == NULL_NAME else value for value in parse_partition_name(columns, name)] if columns else []


def current_names(base: Json) -> dict[str, str]:
    """The name that each Hive column has in the table now: Firn's side may have renamed it."""
    by_id = {field["id"]: field["name"] for field in current_schema(base)["fields"]}
    mapping = base["properties"].get(NAME_MAPPING)
    aliases = read_aliases(mapping) if mapping else []
    names = {alias.lower(): by_id[field_id] for field_id, alias in aliases if field_id in by_id}
    return {**names, **{name.lower(): name for name in by_id.values()}}


def as_hive_calls(base: Json, columns: Sequence[HiveColumn]) -> Json:
    """The table's schema, with its columns called what Hive's files call them."""
    names = current_names(base)
    called = {names[one.name.lower()]: one.name for one in columns if one.name.lower() in names}
    schema = current_schema(base)
    return schema | {"fields": [one | {"name": called.get(one["name"], one["name"])} for one in schema["fields"]]}


def told_column(column: HiveColumn, names: Mapping[str, str]) -> Json:
    """As an optimizer is told of it; `name` is None for a column that the table has no more."""
    return {"hive": column.name, "type": column.type, "name": names.get(column.name.lower())}
