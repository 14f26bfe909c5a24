"""The plan of a sync: the task of its job, and the checkpoint that its commit makes true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.files.data_file import FileFormat, LiveFile
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.change_sources import ChangeSources, format_source
from catalog.hive.checkpoint import Checkpoint, SyncPlan
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import Drift, DriftKind
from catalog.hive.listing import ListedFile
from catalog.hive.model import HiveTable, describe_owner
from catalog.hive.partition_names import format_partition_name, to_partition_records
from catalog.hive.publishing import compare_partitions, find_newest_sequence
from catalog.hive.superseded_directories import add_kept_directories
from catalog.hive.sync_decisions import Changed, LateChange
from catalog.iceberg.json import Json
from server.service.hive.change_set import ChangeSet
from server.service.hive.hive_state import HiveState, LinkedTable, Unit, join
from server.service.hive.task_columns import current_names, describe_column, describe_values

WRITER = "firn-hive-sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedChanges:
    """The changes that one sync takes over."""

    changes: ChangeSet
    changed: Mapping[str, Changed]
    late: Sequence[LateChange] = ()
    again: Mapping[str, PartitionBaseline] = field(default_factory=dict)
    """Unchanged partitions that a rebuild reads again (decision 39)."""

    def with_differing(self, linked: LinkedTable, state: HiveState, live: Iterable[LiveFile]) -> AcceptedChanges:
        """The changes, and the partitions in which base no longer consists of the files that Hive lists.

        A row there may have lost its key to a row that vanishes now. Without it, a publish would remove the row from
        Hive. So the rebuild reads it from Hive's files.
        """
        columns = state.table.partition_columns
        baselines = {name: baseline for name, baseline in linked.baselines.items() if name in self.changes.units}
        differing = compare_partitions(live, baselines, to_partition_records(columns, baselines)).differing
        return replace(self, again={name: baselines[name] for name in differing.keys() - self.changed.keys()})


def build_sync_plan(linked: LinkedTable, state: HiveState, accepted: AcceptedChanges, base: Json) -> SyncPlan:
    """The plan of the job that takes over `taken`; its task needs the metadata of `base`."""
    checkpoint = next_checkpoint(linked, state, accepted.changes, accepted.changed, accepted.late)
    return SyncPlan(checkpoint=checkpoint, task=_task(linked, state, accepted, base))


def _task(linked: LinkedTable, state: HiveState, accepted: AcceptedChanges, base: Json) -> Json:
    """The facts of one sync.

    `mode` is `upsert` if Hive only added files: the job appends their rows to the change store. It is `rebuild` if
    partitions differ from their baselines: the job reads all files that Hive lists, and replays the changes that no
    publish gave to Hive, except changes from files that Hive no longer lists (`dead`).
    """
    names, changes = current_names(base), accepted.changes
    is_rebuild = any(isinstance(change, Rebuild | DroppedPartition) for change in accepted.changed.values())
    read = [(name, _files(changes.units.get(name), change, linked)) for name, change in accepted.changed.items()]
    read += [(late.name, _describe_new_files(late.directory.location, late.files)) for late in accepted.late]
    read += [(name, _describe_known_files(baseline)) for name, baseline in accepted.again.items()]
    units = [
        (name, knew, files)
        for name, some in read
        for knew, files in _by_knowledge(some, _find_known_sequence(linked, changes, name))
    ]
    return {
        "mode": "rebuild" if is_rebuild else "upsert",
        "writer": WRITER,
        "batch": f"{linked.relation.id}-{linked.link.generation + 1}",
        "columns": [describe_column(column, names) for column in state.table.columns],
        "partition_columns": [describe_column(column, names) for column in state.table.partition_columns],
        "units": [
            {
                "values": describe_values(state.table, name),
                "files": [file.to_json() for file in files],
                "format": _format(changes.units.get(name)),
                "knew": knew,
            }
            for name, knew, files in units
        ],
        "dead": sorted(next_sources(linked, changes, accepted.changed, accepted.late).dead),
        **_describe_given(
            linked, accepted, state.table, min((knew for _, knew, files in units if files), default=None)
        ),
    }


def _describe_given(linked: LinkedTable, accepted: AcceptedChanges, table: HiveTable, least: int | None) -> Json:
    """Describe the changes to replay: those after `since` that Hive's side did not know, by partition.

    With a sequence field older changes lose anyway, so the task leaves out only the changes that all partitions have.
    Files contain the changes up to `least`, or later ones.
    """
    baselines, most = linked.baselines, find_newest_sequence(linked.baselines.values(), linked.published_through)
    has_sequence = linked.spec is None or linked.spec.sequence_field is not None
    if not table.partition_columns or has_sequence:
        rebuilt = [baselines[name] for name in accepted.changed if name in baselines]
        published_through = min([linked.published_through, *(baseline.published_through for baseline in rebuilt)])
        since = published_through if least is None else min(published_through, least)
        return {"since": since, "published_through": since if has_sequence else published_through, "behind": []}
    since = min([linked.published_through, *(baseline.published_through for baseline in baselines.values())])
    behind = defaultdict[int, list[list[str | None]]](list)
    for name, baseline in baselines.items():
        if baseline.published_through < most:
            behind[baseline.published_through].append(describe_values(table, name))
    return {
        "since": since if least is None else min(since, least),
        "published_through": most,
        "behind": [{"through": through, "partitions": partitions} for through, partitions in sorted(behind.items())],
    }


def _find_known_sequence(linked: LinkedTable, changes: ChangeSet, name: str) -> int:
    """The change sequence that a partition's writer could know; for a new partition, that of all others."""
    baseline = linked.baselines.get(name)
    return linked.published_through if baseline is None or name in changes.asleep else baseline.published_through


@dataclass(frozen=True, slots=True)
class _Read:
    """A file whose rows are read; keys of `added` ones may live in other partitions."""

    location: str
    file: ListedFile
    added: bool

    def to_json(self) -> Json:
        source, mtime_ns = format_source(self.location, self.file), self.file.mtime_ns
        return {"location": self.location, "source": source, "mtime_ns": mtime_ns, "added": self.added}


def _by_knowledge(files: Sequence[_Read], knew: int) -> Iterator[tuple[int, list[_Read]]]:
    """The files of a partition that contain the same changes: moved ones those of where they were written for."""
    by_knowledge: dict[int, list[_Read]] = {} if files else {knew: []}
    for file in files:
        by_knowledge.setdefault(knew if file.file.knew is None else file.file.knew, []).append(file)
    yield from by_knowledge.items()


def _files(unit: Unit | None, change: Changed, linked: LinkedTable) -> list[_Read]:
    """The files to read; `added` ones were not there before."""
    if unit is None or isinstance(change, DroppedPartition):
        return []
    added = {file.path for file in (change.added if isinstance(change, Rebuild) else change.files)}
    added -= _list_decided_before(change, linked) if isinstance(change, Rebuild) else set()
    return [_Read(join(unit.location, file.path), file, file.path in added) for file in change.files]


def _list_decided_before(change: Rebuild, linked: LinkedTable) -> set[str]:
    """Moved files whose rows are base's, or have lost to rows of other partitions: they win over none of them now.

    Rows that went into the change store are not: these changes are left out from now on.
    """
    live = linked.link.sources.live
    return {
        path
        for path, removed in change.moved.items()
        if all(format_source(join(old.location, old.file.path), old.file) not in live for old in removed)
    }


def _format(unit: Unit | None) -> str:
    """The format of a partition's files; a dropped one has none to read."""
    return str(FileFormat.PARQUET if unit is None else unit.format)


def _describe_new_files(location: str, files: Sequence[ListedFile]) -> list[_Read]:
    return [_Read(join(location, file.path), file, added=True) for file in files]


def _describe_known_files(baseline: PartitionBaseline) -> list[_Read]:
    return [_Read(join(baseline.location, file.path), file, added=False) for file in baseline.files]


def next_checkpoint(
    linked: LinkedTable,
    state: HiveState,
    changes: ChangeSet,
    accepted: Mapping[str, Changed],
    late: Sequence[LateChange] = (),
    *,
    as_changes: bool = True,
) -> Checkpoint:
    """The state of the link once the sync has taken over the changes `accepted` and `late`.

    If some changes remain for later, the table does not count as synced. Rows of added files become changes, unless
    base registers the files themselves: then a rebuild has no changes to leave out.
    """
    link, baselines = linked.link, _next_baselines(linked, changes, accepted, late)
    kept = None
    if changes.unwatched:
        kept = add_kept_directories(linked.relation.id, link.superseded, linked.baselines.values(), changes.unwatched)
    return Checkpoint(
        since=link.generation,
        generation=link.generation + bool(accepted or late or changes.lost_late),
        baselines=baselines,
        removed=(
            *changes.forgotten,
            *(name for name, change in accepted.items() if isinstance(change, DroppedPartition)),
        ),
        appended=tuple(name for name, change in accepted.items() if isinstance(change, Additions | NewPartition)),
        drift=_drift(state, changes),
        ddl_time=state.table.ddl_time,
        held_partitions=tuple(sorted(changes.held)),
        read_again=tuple(name for name in link.read_again if name in linked.baselines and name not in accepted),
        superseded=kept,
        sources=_filter_listed(linked, changes, accepted if as_changes else {}, late) if linked.is_keyed else None,
        is_to_compare=bool(baselines or changes.lost_late),
        is_complete=len(accepted) == len(changes.changed)
        and len(late) == len(changes.late)
        and not changes.overwritten,
        is_sweep=changes.is_sweep,
        events=tuple(_events(accepted, late)),
    )


def _next_baselines(
    linked: LinkedTable, changes: ChangeSet, accepted: Mapping[str, Changed], late: Sequence[LateChange]
) -> dict[str, PartitionBaseline]:
    baselines = dict(changes.refreshed)
    for name, change in accepted.items():
        if isinstance(change, Additions | NewPartition | Rebuild):
            baselines[name] = change.baseline
        elif linked.when.overwrite_ns:
            baselines[name] = linked.baselines[name].mark_dropped(changes.began_ns)
    for late_change in late:
        name = late_change.name
        baselines[name] = baselines.get(name, linked.baselines[name]).with_watched(late_change.directory)
    return baselines


def _filter_listed(
    linked: LinkedTable, changes: ChangeSet, accepted: Mapping[str, Changed], late: Sequence[LateChange]
) -> ChangeSources:
    """The sources without those in directories that syncs no longer list."""
    sources = next_sources(linked, changes, accepted, late)
    return sources.without_directories(changes.unwatched, [unit.location for unit in changes.units.values()])


def _drift(state: HiveState, changes: ChangeSet) -> Drift | None:
    """The remaining drift, with its probable author: of the named partition, or of the table."""
    if changes.trouble is None:
        return None
    held = next(iter(changes.held), None) if changes.differs is None else None
    columns = state.table.partition_columns
    partition = next(
        (partition for partition in state.partitions if format_partition_name(columns, partition.values) == held), None
    )
    kind = DriftKind.PARTITIONS if changes.held else changes.differs_in
    return Drift(kind=kind, message=changes.trouble, likely_author=describe_owner(state.table, partition))


_EVENTS = {
    DroppedPartition: HiveEventKind.DROPPED,
    Rebuild: HiveEventKind.REBUILT,
    NewPartition: HiveEventKind.NEW,
    Additions: HiveEventKind.ADDED,
}


def _events(accepted: Mapping[str, Changed], late: Sequence[LateChange]) -> Iterator[HiveEvent]:
    """The events of the sync, each with the number of files that came, or went with a dropped partition."""
    for name, change in accepted.items():
        files = change.removed if isinstance(change, DroppedPartition) else change.files
        yield HiveEvent(kind=_EVENTS[type(change)], partition=name, files=len(files))
    for late_change in late:
        yield HiveEvent(kind=HiveEventKind.LATE, partition=late_change.name, files=len(late_change.files))


def next_sources(
    linked: LinkedTable, changes: ChangeSet, accepted: Mapping[str, Changed], late: Sequence[LateChange] = ()
) -> ChangeSources:
    """The sources after the sync."""
    sources = linked.link.sources
    for name, change in accepted.items():
        if isinstance(change, Additions | NewPartition):
            unit = changes.units[name]
            sources = sources.with_appended(
                [format_source(join(unit.location, file.path), file) for file in change.files]
            )
        elif change.removed:
            place = linked.baselines[name].location
            sources = sources.with_vanished([format_source(join(place, file.path), file) for file in change.removed])
    for late_change in late:
        location = late_change.directory.location
        sources = sources.with_appended([format_source(join(location, file.path), file) for file in late_change.files])
    return sources
