"""The layout of a table's files: counts over the manifests of one snapshot, of fixed size for any number of
partitions.

The server counts after commits (server.service.planning.file_layouts). It stores the counts with the snapshot and the
rule, so readers know whether they are still right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from catalog.files.bin_packing import AppliedDeletes, RewriteRule, Selection, group_key
from catalog.files.change_packing import ChangeFile, Pack, pack_files
from catalog.files.manifest_entries import ManifestEntry
from catalog.iceberg.json import Json
from catalog.tables.relation import TableStats

FEWEST_FILES = 2
"""The fewest files that can be packed. Requested and scheduled jobs pack so few."""
APPLY_DELETES = "apply_deletes"
"""The parameter for a rewrite of every file that a delete file applies to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The effect of one job on the files, over all its groups."""

    files: int = 0
    bytes: int = 0
    groups: int = 0
    files_after: int = 0
    packable_files: int = 0
    """The number of `files` in groups that become fewer files. A group of files with deletes may stay as many."""
    delete_files: int = 0
    """Delete files that are removed with them."""

    @property
    def saved_files(self) -> int:
        """The number of files that the job saves."""
        return max(self.files - self.files_after, 0)


NOTHING = Packing()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The files of one snapshot of a table or store, and the effect of jobs on them."""

    snapshot_id: int | None
    spec_id: int
    epoch: int
    """The epoch of the statistics read before the manifests (catalog.tables.relation.TableStats)."""
    rule: Mapping[str, Any]
    """The sizes and limits of a planned job's task."""
    data_files: int = 0
    small_files: int = 0
    partitions: int = 0
    """Partitions with data files."""
    planned: Packing = NOTHING
    """The effect of an unscheduled job."""
    requested: Packing = NOTHING
    """The effect of a scheduled or requested job, for which two files suffice."""
    deletes: Packing = NOTHING
    """The effect of a job that applies deletes."""
    seconds: float = 0.0
    """The duration of the count."""

    def is_of(self, stats: TableStats, rule: Mapping[str, Any]) -> bool:
        """Whether these are the table's current files, counted by this rule."""
        return self.snapshot_id == stats.snapshot_id and self.spec_id == stats.spec_id and self.rule == rule

    def still_holds(self, stats: TableStats, rule: Mapping[str, Any]) -> bool:
        """Whether a job would find at least this. That is so while only appends follow the count."""
        return self.is_of(stats, rule) or (
            self.epoch == stats.epoch and self.spec_id == stats.spec_id and self.rule == rule
        )

    def packing(self, params: Mapping[str, Any]) -> Packing:
        """The effect of a rewrite with these parameters."""
        if params.get(APPLY_DELETES):
            return self.deletes
        return self.requested if params.get("min_files") else self.planned

    def as_json(self) -> dict[str, Any]:
        """The layout as the database stores it."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The layout from its stored form."""
        packings = {name: Packing(**stored[name]) for name in ("planned", "requested", "deletes")}
        return cls(**{**stored, **packings})


@dataclass(slots=True)
class LayoutCounter:
    """Counts the files of one snapshot: first its delete files, then its data files."""

    metadata: Json
    rule: Mapping[str, Any]
    small_below: int
    counts: dict[str, int] = field(default_factory=lambda: {"data_files": 0, "small_files": 0})
    _partitions: set[Any] = field(default_factory=set)
    _deletes: AppliedDeletes = field(default_factory=AppliedDeletes)

    @property
    def spec_id(self) -> int:
        """The id of the current partition spec."""
        return int(self.metadata["default-spec-id"])

    @property
    def width(self) -> int:
        """The number of fields in the current partition spec."""
        specs = self.metadata["partition-specs"]
        return len(next(spec["fields"] for spec in specs if spec["spec-id"] == self.spec_id))

    def add_delete(self, file: ManifestEntry) -> None:
        """Count a delete file."""
        self._deletes.add(file)

    def _count_file(self, file: ManifestEntry) -> None:
        self.counts["data_files"] += 1
        self.counts["small_files"] += file.size < self.small_below
        self._partitions.add((file.spec_id, file.partition))

    def rewritten(self, files: Iterable[ManifestEntry]) -> dict[str, Any]:
        """All counts of a table whose files a rewrite packs."""
        rules = {
            "planned": RewriteRule.of_task(self.rule),
            "requested": RewriteRule.of_task({**self.rule, "min_files": FEWEST_FILES}),
        }
        if self._deletes.count:
            rules["deletes"] = RewriteRule.of_task({**self.rule, APPLY_DELETES: True})
        selections: dict[str, Selection[None]] = {
            name: Selection(rule, self._deletes, spec_id=self.spec_id, width=self.width) for name, rule in rules.items()
        }
        for file in files:
            self._count_file(file)
            for selection in selections.values():
                selection.add(file, None)
        packings = {name: summarize_packing(selections[name], rule.files_after) for name, rule in rules.items()}
        return {**self.counts, "partitions": len(self._partitions), "deletes": packings["planned"], **packings}

    def compacted(self, files: Iterable[ManifestEntry]) -> dict[str, Any]:
        """All counts of a change store."""
        data_files = list(files)
        for file in data_files:
            self._count_file(file)
        rules = {"planned": self.rule, "requested": {**self.rule, "min_files": FEWEST_FILES}}
        packings = {
            name: _summarize_packs(pack_change_files(data_files, rule, self.spec_id, self.width))
            for name, rule in rules.items()
        }
        return {**self.counts, "partitions": len(self._partitions), **packings}


def summarize_packing(selection: Selection[Any], files_after: Callable[[int], int]) -> Packing:
    """The counts of the groups that a rewrite takes."""
    files = size = groups = after = packable = deletes = 0
    for group in selection.groups():
        count, left = len(group.items), files_after(group.bytes)
        files, size, groups, after = files + count, size + group.bytes, groups + 1, after + left
        packable += count if left < count else 0
        deletes += group.delete_files
    return Packing(
        files=files, bytes=size, groups=groups, files_after=after, packable_files=packable, delete_files=deletes
    )


def _summarize_packs(packs: list[tuple[Pack, list[ManifestEntry]]]) -> Packing:
    count, files = len(packs), sum(len(packed) for _, packed in packs)
    size = sum(pack.bytes for pack, _ in packs)
    return Packing(files=files, bytes=size, groups=count, files_after=count, packable_files=files)


def pack_change_files(
    files: Iterable[ManifestEntry], task: Mapping[str, Any], spec_id: int, width: int
) -> list[tuple[Pack, list[ManifestEntry]]]:
    """The packs of a compaction with this task, over a change store's data files."""
    groups: dict[Any, list[ManifestEntry]] = {}
    for file in files:
        groups.setdefault(group_key(file, spec_id=spec_id, older=(None,) * width), []).append(file)
    packs: list[tuple[Pack, list[ManifestEntry]]] = []
    for group in groups.values():
        change_files = [ChangeFile(index, file.size, file.sequence_number) for index, file in enumerate(group)]
        all_packs = pack_files(
            change_files,
            watermark=task["watermark"],
            target_bytes=task["target_file_size"],
            min_files=task["min_files"],
        )
        wanted = (pack for pack in all_packs if pack.is_pending or task["pack_merged"])
        packs += [(pack, [group[file.index] for file in pack.files]) for pack in wanted]
    return packs
