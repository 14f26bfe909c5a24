"""What expiries, time to live, tags and statistics would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from catalog.iceberg.json import Json
from catalog.keeping.ttl import Cutoff
from catalog.planning.need import counted
from catalog.ports.reading import ListedFile, ManifestLine
from catalog.would import Touch, Would, largest
from server.service.dryruns.look import Look, TooMany, by_partition, check_not_too_many, gained, totals
from server.service.keeping.tasks import expiring, ttl_cutoff

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Freed:
    """Files that only leaving snapshots need."""

    files: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    known: bool = True


def expire(look: Look) -> Would:
    """Snapshots and refs that may go, and the files that only they need."""
    snapshots = refs = 0
    freed = _Freed()
    for _, metadata, going in expiring(look.moment):
        snapshots += len(going.snapshot_ids)
        refs += len(going.refs)
        _add_freed(freed, look, metadata, set(going.snapshot_ids))
    kept = next((place.kept_because for place in look.places() if place.kept_because), None)
    notes = [] if freed.known else ["there are too many manifests to count the files while you wait"]
    notes += [] if kept is None else [f"no file would be deleted: {kept}"]
    every = {**freed.files, **freed.manifests, **freed.others} if kept is None else {}
    return Would(
        would=f"expire {counted(snapshots, 'snapshot')}" + (f" and drop {counted(refs, 'ref')}" if refs else ""),
        touches=[
            Touch("snapshots", snapshots),
            Touch("branches and tags", refs),
            Touch("data and delete files", *_sized(freed.files if kept is None else {})),
            Touch("manifests", *_sized(freed.manifests if kept is None else {})),
            Touch("manifest lists and statistics", len(freed.others) if kept is None else 0),
        ],
        gain={**gained(look.moment.main_store[1]), "freed_files": len(every), "freed_bytes": sum(every.values())},
        exact=freed.known,
        notes=notes,
    )


def _sized(files: Mapping[str, int]) -> tuple[int, int]:
    return len(files), sum(files.values())


def _add_freed(freed: _Freed, look: Look, metadata: Json, leaving: set[int]) -> None:
    """What the leaving snapshots lead to and no other does."""
    if not leaving:
        return
    gone, kept = (
        [one for one in metadata["snapshots"] if (one["snapshot-id"] in leaving) is wanted] for wanted in (True, False)
    )
    freed.others |= {one["manifest-list"]: 0 for one in gone if one.get("manifest-list")}
    statistics = [*(metadata.get("statistics") or ()), *(metadata.get("partition-statistics") or ())]
    freed.others |= {
        one["statistics-path"]: int(one.get("file-size-in-bytes") or 0)
        for one in statistics
        if one["snapshot-id"] in leaving
    }
    try:
        staying = _lines(look, metadata, kept)
        going = {name: line for name, line in _lines(look, metadata, gone).items() if name not in staying}
        check_not_too_many([*staying.values(), *going.values()])
    except TooMany:
        freed.known = False
        return
    freed.manifests |= {name: line.length for name, line in going.items()}
    manifests = look.manifests(metadata)
    found = {file.location: file.size for line in going.values() for file in manifests.files(metadata, line)}
    if found:
        for line in staying.values():
            for file in manifests.files(metadata, line):
                found.pop(file.location, None)
    freed.files |= found


def _lines(look: Look, metadata: Json, snapshots: list[Json]) -> dict[str, ManifestLine]:
    found: dict[str, ManifestLine] = {}
    for snapshot in snapshots:
        found |= {line.location: line for line in look.manifests(metadata).lines(metadata, snapshot)}
        check_not_too_many(found.values())
    return found


@dataclass(slots=True)
class _Old:
    """Files with old rows, sorted by what has to be done to them."""

    whole: list[ListedFile] = field(default_factory=list)
    part: list[ListedFile] = field(default_factory=list)
    rows: int = 0
    """Of those in part, estimated between their bounds."""


def ttl(look: Look) -> Would:
    """Rows that are too old: in whole partitions and files, and in parts of files as their bounds say."""
    metadata, cutoff = look.moment.main_store[1], ttl_cutoff(look.moment)
    files = look.live(metadata, bounds_of=cutoff.field_id)
    has_deletes = any(file.content for file in files)
    old = _old(metadata, cutoff, [file for file in files if not file.content])
    rows = old.rows + sum(file.record_count for file in old.whole)
    size = sum(file.size for file in old.whole)
    pending = look.moment.keyed is not None and look.moment.keyed.pending_commits > 0
    notes = ["rows in part of a file are estimated from its bounds"] if old.part else []
    notes += ["rows that delete files take away already are counted too"] if has_deletes else []
    notes += ["pending changes are not counted"] if pending else []
    about = "about " if notes else ""
    return Would(
        would=f"delete {about}{counted(rows, 'row')} in which {cutoff.column} is before {cutoff.at}",
        touches=[
            Touch("rows", rows),
            Touch("files that go whole, unopened", len(old.whole), size),
            Touch("files that lose some rows", len(old.part), sum(file.size for file in old.part)),
            *largest(by_partition(metadata, [*old.whole, *old.part])),
        ],
        gain=gained(metadata, files=len(old.whole), bytes=size),
        exact=not notes,
        notes=notes,
    )


def _old(metadata: Json, cutoff: Cutoff, files: list[ListedFile]) -> _Old:
    found = _Old()
    specs = {spec["spec-id"]: spec["fields"] for spec in metadata["partition-specs"]}
    for file in files:
        if _is_null(specs[file.spec_id], file, cutoff):
            continue
        lower, upper = _span(specs[file.spec_id], file, cutoff)
        if lower is not None and lower >= cutoff.value:
            continue
        if upper is not None and upper < cutoff.value:
            found.whole.append(file)
        else:
            found.part.append(file)
            found.rows += _share(file, lower, upper, cutoff.value)
    return found


def _is_null(fields: list[Json], file: ListedFile, cutoff: Cutoff) -> bool:
    """Whether all of the file's rows are without a value: every transform of null is null, and of nothing else."""
    pairs = zip(fields, file.partition, strict=True)
    return any(
        one["source-id"] == cutoff.field_id and one["transform"] != "void" and value is None for one, value in pairs
    )


def _span(fields: list[Json], file: ListedFile, cutoff: Cutoff) -> tuple[int | None, int | None]:
    """The least and the greatest value that a row of the file may have, by its bounds or by its partition."""
    lower, upper = file.lower, file.upper
    for one, value in zip(fields, file.partition, strict=True):
        if one["source-id"] != cutoff.field_id or not isinstance(value, int):
            continue
        start, end = _of_partition(one["transform"], value, cutoff.kind)
        lower = start if lower is None else lower
        upper = end if upper is None else upper
    return lower, upper


def _of_partition(transform: str, value: int, kind: str) -> tuple[int | None, int | None]:
    """First and last value of a partition, in the column's unit."""
    if transform == "identity":
        return value, value
    starts = [_start(transform, number) for number in (value, value + 1)]
    if None in starts:
        return None, None
    unit = timedelta(days=1) if kind == "date" else timedelta(microseconds=1)
    first, following = ((start - _EPOCH) // unit for start in starts if start is not None)
    return first, following - 1


def _start(transform: str, value: int) -> datetime | None:
    try:
        match transform:
            case "hour":
                return _EPOCH + timedelta(hours=value)
            case "day":
                return _EPOCH + timedelta(days=value)
            case "month":
                return datetime(1970 + value // 12, value % 12 + 1, 1, tzinfo=UTC)
            case "year":
                return datetime(1970 + value, 1, 1, tzinfo=UTC)
            case _:
                return None
    except (OverflowError, ValueError):  # a time that Python's calendar has not
        return None


def _share(file: ListedFile, lower: int | None, upper: int | None, cutoff: int) -> int:
    if lower is None or upper is None:
        return file.record_count
    return round(file.record_count * (cutoff - lower) / (upper - lower + 1))


def tags(look: Look) -> Would:
    """Tags that the schedule asks for, and those whose time is over."""
    make, drop, missed = look.task["make"], look.task["drop"], look.task["missed"]
    made = [Touch(f"tag {one['name']} on snapshot {one['snapshot_id']}", 1) for one in make]
    dropped = [Touch(f"drop {name}", 1) for name in sorted(drop)]
    return Would(
        would=f"make {counted(len(make), 'tag')} and drop {len(drop):,}",
        touches=[*made, *dropped],
        gain=gained(look.moment.main_store[1]),
        notes=[f"no tag {name}: {why}" for name, why in missed.items()],
    )


def statistics(look: Look) -> Would:
    """Columns to be counted: their values of all rows are read."""
    metadata, columns = look.moment.main_store[1], look.task["columns"]
    now = totals(metadata)
    if look.task["snapshot_id"] is None or not columns:
        why = "the head's statistics are there already, or it has none of the columns yet"
        return Would(would=f"count nothing: {why}", gain=gained(metadata))
    return Would(
        would=f"count the distinct values of {counted(len(columns), 'column')} over {counted(now['rows'], 'row')}",
        touches=[Touch("columns", len(columns)), Touch("files to read", now["files"], now["bytes"])],
        gain=gained(metadata),
        notes=[f"columns: {', '.join(columns)}", "only these columns' parts of the files are read"],
    )
