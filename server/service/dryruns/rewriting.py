"""What a rewrite would do: the files that Iceberg's planner would choose, as the job asks it to."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.file_layout import LayoutCounter, packing_of
from catalog.history.tables import sorting_text
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, field_by_name
from catalog.planning.need import counted
from catalog.ports.reading import ListedFile
from catalog.rewrite_selection import AppliedDeletes, RewriteRule, Selection
from catalog.would import NOTHING_TO_DO, Touch, Would, largest
from server.service.dryruns.look import Look, by_partition, gained


def rewrite(look: Look) -> Would:
    """Small files and such with many deleted rows, or all; packed within their partitions, in order where asked."""
    metadata, task = look.moment.main_store[1], look.task
    order, rule = _order(metadata, task), RewriteRule.of_task(task)
    files = look.live(metadata)
    data = [file for file in files if not file.content]
    deletes = AppliedDeletes()
    for file in files:
        if file.content:
            deletes.add(file)
    selection = _selection(metadata, data, deletes, rule)
    packing = packing_of(selection, rule.files_after)
    chosen = [file for group in selection.groups() for file in group.items]
    notes = _notes(metadata, task, deletes, chosen)
    what = "small file" if all(file.size < rule.small_below for file in chosen) else "file"
    after = f"into about {packing.files_after:,}{order}"
    return Would(
        would=f"pack {counted(packing.files, what)} of {len(data):,} {after}" if chosen else NOTHING_TO_DO,
        touches=[
            Touch("files to rewrite", packing.files, packing.bytes),
            Touch("files to leave", len(data) - packing.files, _size(data) - packing.bytes),
            Touch("partitions", packing.groups),
            *largest(by_partition(metadata, chosen)),
        ],
        gain=gained(metadata, files=packing.files - packing.files_after, deletes=packing.delete_files),
        exact=not notes,
        notes=notes,
        is_empty=not chosen,
    )


def _selection(
    metadata: Json, data: Sequence[ListedFile], deletes: AppliedDeletes, rule: RewriteRule
) -> Selection[ListedFile]:
    counter = LayoutCounter(metadata, {}, rule.small_below)
    selection: Selection[ListedFile] = Selection(rule, deletes, spec_id=counter.spec_id, width=counter.width)
    for file in data:
        selection.add(file, file)
    return selection


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


def _notes(metadata: Json, task: Json, deletes: AppliedDeletes, chosen: Sequence[ListedFile]) -> list[str]:
    """What is not counted here."""
    notes: list[str] = []
    if not chosen:
        return notes
    if task["filter"] is not None:
        notes.append(f"of these only files are taken that may hold rows where {task['filter']}: found when it runs")
    if not task["everything"] and _size(chosen) > task["max_job_bytes"]:
        most = counted(task["max_job_bytes"], "byte")
        notes.append(f"one job takes {most} (firn.rewrite.max-job-size), or one partition's more: the next goes on")
    if deletes.count:
        notes.append("rows that delete files take away are not written again")
    if task["apply_deletes"] and deletes.nameless:
        notes.append("delete files of several data files may apply to fewer of them: found when it runs")
    if any(file.spec_id != metadata["default-spec-id"] for file in chosen):
        notes.append("files of an older partitioning are spread over the partitions of now")
    return notes
