"""What a rewrite would do: the files that Iceberg's planner would choose, as the job asks it to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import Invalid
from catalog.history.tables import sorting_text
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, field_by_name
from catalog.planning.need import counted
from catalog.ports.reading import ListedFile
from catalog.would import Touch, Would, largest
from server.service.dryruns.look import Look, by_partition, gained, together

_TOO_LARGE = 1.8
"""Of the target: Iceberg splits larger files."""


@dataclass(frozen=True, slots=True)
class _Deleted:
    """What delete files take away from the data files that they name."""

    rows: dict[str, int]
    files: dict[str, int]
    nameless: int
    """Delete files that name no data file: which rows they take away is in them."""


def rewrite(look: Look) -> Would:
    """Small files and such with many deleted rows, or all; packed within their partitions, in order where asked."""
    metadata, task = look.moment.main_store[1], look.task
    order = _order(metadata, task)
    files = look.live(metadata)
    data = [file for file in files if not file.content]
    deleted = _deleted(files)
    groups = _groups(metadata, data, deleted, task)
    chosen = [file for group in groups for file in group]
    size = _size(chosen)
    after = sum(-(-_size(group) // task["target_file_size"]) for group in groups)
    notes = _notes(metadata, task, deleted, chosen)
    what = "small file" if all(file.size < task["small_file_size"] for file in chosen) else "file"
    return Would(
        would=f"pack {counted(len(chosen), what)} of {len(data):,} into about {after:,}{order}",
        touches=[
            Touch("files to rewrite", len(chosen), size),
            Touch("files to leave", len(data) - len(chosen), _size(data) - size),
            Touch("partitions", len(groups)),
            *largest(by_partition(metadata, chosen)),
        ],
        gain=gained(
            metadata,
            files=len(chosen) - after,
            deletes=sum(deleted.files.get(file.location, 0) for file in chosen),
        ),
        exact=not notes,
        notes=notes,
    )


def _size(files: Sequence[ListedFile]) -> int:
    return sum(file.size for file in files)


def _order(metadata: Json, task: Json) -> str:
    """How rows are sorted, in words; Invalid for what the job would be refused for when it begins."""
    if task["strategy"] == "binpack":
        return ""
    schema = current_schema(metadata)
    unknown = [
        name
        for name in task["sort_order"]
        if all(field_by_name(schema, part) is None for part in (name, name.partition(".")[0]))
    ]
    if unknown:
        raise Invalid(f"cannot sort by {', '.join(unknown)}: the table has no such column", hint="case matters")
    by = ", ".join(task["sort_order"]) or sorting_text(metadata)
    if by is None:
        raise Invalid("the table has no sort order", hint="set one, or name the columns to sort by")
    return f", {'sorted' if task['strategy'] == 'sort' else 'z-ordered'} by {by}"


def _deleted(files: Sequence[ListedFile]) -> _Deleted:
    found = _Deleted({}, {}, sum(1 for file in files if file.content and file.of is None))
    for file in files:
        if file.of is not None:
            found.rows[file.of] = found.rows.get(file.of, 0) + file.record_count
            found.files[file.of] = found.files.get(file.of, 0) + 1
    return found


def _groups(metadata: Json, data: Sequence[ListedFile], deleted: _Deleted, task: Json) -> list[list[ListedFile]]:
    """As Iceberg chooses: enough files, enough bytes for a whole one, one too large, or one with many deleted rows."""
    if task["everything"]:
        return together(metadata, data)
    largest = _TOO_LARGE * task["target_file_size"]

    def lost(file: ListedFile) -> bool:
        rows = deleted.rows.get(file.location, 0)
        return rows > 0 and rows >= task["max_delete_ratio"] * file.record_count

    def worth(group: Sequence[ListedFile]) -> bool:
        several = len(group) > 1 and (len(group) >= task["min_files"] or _size(group) > task["target_file_size"])
        return several or _size(group) > largest or any(lost(file) for file in group)

    wanted = [file for file in data if not task["small_file_size"] <= file.size <= largest or lost(file)]
    return [group for group in together(metadata, wanted) if worth(group)]


def _notes(metadata: Json, task: Json, deleted: _Deleted, chosen: Sequence[ListedFile]) -> list[str]:
    """What is not counted here."""
    notes = []
    if task["filter"] is not None:
        notes.append(f"of these only files are taken that may hold rows where {task['filter']}: found when it runs")
    if not task["everything"] and _size(chosen) > task["max_job_bytes"]:
        most = counted(task["max_job_bytes"], "byte")
        notes.append(f"one job takes {most} (firn.rewrite.max-job-size), or one partition's more: the next goes on")
    if deleted.rows or deleted.nameless:
        notes.append("rows that delete files take away are not written again")
    if deleted.nameless and not task["everything"]:
        notes.append("files that have lost many rows to delete files of several data files are found when it runs")
    if any(file.spec_id != metadata["default-spec-id"] for file in chosen):
        notes.append("files of an older partitioning are spread over the partitions of now")
    return notes
