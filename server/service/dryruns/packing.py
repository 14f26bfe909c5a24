"""What jobs would do that pack change files, delete files and manifests."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.file_layout import LayoutCounter, change_packs
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.keyed.packing import SMALL_SHARE
from catalog.keyed.spec import CHANGE
from catalog.planning.need import counted
from catalog.ports.reading import ListedFile
from catalog.would import NOTHING_TO_DO, Touch, Would, largest
from server.service.dryruns.look import Look, by_partition, gained, together

_DELETE_TARGET = ("write.delete.target-file-size-bytes", 64 * 2**20)
_MANIFEST_TARGET = ("commit.manifest.target-size-bytes", 8 * 2**20)


def compact(look: Look) -> Would:
    """Small files of the change store, by the rule that the job packs by."""
    change, task = look.moment.metadata[CHANGE], look.task
    data = [file for file in look.live(change) if not file.content]
    counter = LayoutCounter(change, {}, 0)
    packed = change_packs(data, task, counter.spec_id, counter.width)
    chosen = [file for _, files in packed for file in files]
    size = sum(file.size for file in chosen)
    pending = sum(len(files) for pack, files in packed if pack.is_pending)
    return Would(
        would=f"pack {counted(len(chosen), 'change file')} of {len(data):,} into {len(packed):,}"
        if chosen
        else NOTHING_TO_DO,
        touches=[
            Touch("files to pack", len(chosen), size),
            Touch("of them with pending rows", pending),
            Touch("files to leave", len(data) - len(chosen), sum(file.size for file in data) - size),
            *largest(by_partition(change, chosen)),
        ],
        gain=gained(change, files=len(chosen) - len(packed)),
        is_empty=not chosen,
    )


def deletes(look: Look) -> Would:
    """Delete files of data files that are gone, and small ones that can be packed: a deletion vector cannot."""
    metadata, task = look.moment.main_store[1], look.task
    files = look.live(metadata)
    data = {file.location for file in files if not file.content}
    found = [file for file in files if file.content]
    dangling = [file for file in found if file.of is not None and file.of not in data]
    loose = [file for file in found if file.content == 1 and not file.is_vector and file not in dangling]
    groups = _small_groups(metadata, loose, task["min_files"])
    chosen = [file for group in groups for file in group]
    nameless = any(file.of is None for file in found)
    return Would(
        would=f"drop {counted(len(dangling), 'delete file')} of {len(found):,} and pack {len(chosen):,}",
        touches=[
            Touch("delete files of data files that are gone", *_sized(dangling)),
            Touch("delete files to pack", *_sized(chosen)),
            Touch("delete files to leave", len(found) - len(dangling) - len(chosen)),
            *largest(by_partition(metadata, [*dangling, *chosen])),
        ],
        gain=gained(metadata, deletes=len(dangling) + len(chosen) - len(groups)),
        exact=not nameless and not chosen,
        notes=_about_deletes(nameless=nameless, packs=bool(chosen)),
    )


def _about_deletes(*, nameless: bool, packs: bool) -> list[str]:
    notes = ["delete files that name no data file may apply to nothing: found when it runs"] if nameless else []
    return notes + (["into how many files they are packed depends on what they still delete"] if packs else [])


def _small_groups(metadata: Json, files: Sequence[ListedFile], least: int) -> list[list[ListedFile]]:
    target = _target(metadata, _DELETE_TARGET)
    small = together(metadata, (file for file in files if file.size < SMALL_SHARE * target))
    return [group for group in small if len(group) > 1 and (len(group) >= least or _sized(group)[1] > target)]


def _sized(files: Sequence[ListedFile]) -> tuple[int, int]:
    return len(files), sum(file.size for file in files)


def manifests(look: Look) -> Would:
    """Each store's manifests where there are more than asked for, and half as many would do."""
    now = after = 0
    touches = []
    for store, name, metadata in look.moment.stores:
        sizes = _manifest_sizes(look, metadata)
        fewest = -(-sum(sizes) // _target(metadata, _MANIFEST_TARGET))
        written = len(sizes) > look.task["max_count"] and fewest <= len(sizes) / 2
        now, after = now + len(sizes), after + (fewest if written else len(sizes))
        label = f"manifests of {store or name} to " + ("write anew" if written else "leave")
        touches.append(Touch(label, len(sizes), sum(sizes)))
    changes = now != after
    return Would(
        would=f"write {counted(now, 'manifest')} anew as about {after:,}" if changes else "leave the manifests alone",
        touches=touches,
        gain=gained(look.moment.main_store[1]),
        exact=not changes,
        notes=["manifests of older partitionings stay as they are"] if changes else [],
    )


def _manifest_sizes(look: Look, metadata: Json) -> list[int]:
    """The list of them alone is read, however many they are."""
    head = current_snapshot(metadata)
    return [] if head is None else [line.length for line in look.manifests(metadata).lines(metadata, head)]


def _target(metadata: Json, setting: tuple[str, int]) -> int:
    key, default = setting
    text = str(metadata.get("properties", {}).get(key, ""))
    return int(text) if text.isdecimal() and int(text) else default
