"""What jobs open, and the check that they may. Each kind says in its own module what it opens.

The session caches tables, so a job goes on working with the state of a table that was checked, whatever others commit
meanwhile; after a refresh the new state is checked before anything of it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from pyspark.sql import DataFrame

from firn.protocol.leases import Lease
from firn.spark.java import iterate
from optimizer.file_access import FileAccess
from optimizer.job_run import JobRun
from optimizer.spark import JobSession

CHANGE = "change"
"""The last part of a change store's name."""
MOST_LISTED = 5_000
MOST_DELETES = 500
MOST_MANIFESTS = 100
"""Up to so many data files and delete files in so many manifests the driver lists by itself: two jobs of Spark take
more CPU time.
"""
_DATA = 0
"""The id of manifests of data files; others are of delete files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """A table that a job opens files of: as of a snapshot, of its head where None; or of all that there is."""

    parts: Sequence[str]
    snapshot_id: int | None = None
    every_snapshot: bool = False
    manifests_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReads:
    """All that a job opens. The server has named the files and directories, which are Hive's."""

    tables: Sequence[TableRead] = ()
    files: Sequence[str] = ()
    directories: Sequence[str] = ()


class ReadsTables(Protocol):
    """The work of a lease that reads tables: a job, or a query."""

    @property
    def session(self) -> JobSession: ...
    @property
    def file_access(self) -> FileAccess: ...
    @property
    def checked(self) -> set[object]: ...


def check_reads(work: JobRun, reads: JobReads) -> None:
    """Refused if the job would open a file that its table may not name. Nothing of such files was opened by then."""
    if not reads.tables and not reads.files and not reads.directories:
        return
    work.keeper.stage("checking where the table's files are")
    work.file_access.check_named(reads.files, reads.directories)
    for read in reads.tables:
        check_table(work, read)


def refresh_checked(work: JobRun, table: Any, parts: Sequence[str]) -> None:
    """Bring a table up to date; Refused if it names files by now that may not be opened."""
    table.refresh()
    check_table(work, TableRead(parts=parts))


def check_listed(work: JobRun, metadata: Mapping[str, Any]) -> None:
    """Check the manifest lists of all snapshots in a table's metadata."""
    for snapshot in metadata.get("snapshots") or ():
        lists = [snapshot["manifest-list"]] if "manifest-list" in snapshot else []
        work.file_access.check_files([*lists, *snapshot.get("manifests", ())])


def check_table(work: ReadsTables, read: TableRead) -> None:
    """Refused if a state of the table names files that may not be opened."""
    table = work.session.table(read.parts)
    if read.every_snapshot:
        _check_every_snapshot(work, table)
        return
    head = table.currentSnapshot()
    snapshot = head if read.snapshot_id is None else table.snapshot(read.snapshot_id)
    if snapshot is None:  # an empty table; or a snapshot that is gone, without which the job fails by itself
        return
    checked = (snapshot.snapshotId(), read.manifests_alone)
    if checked not in work.checked:
        manifests = _check_snapshot(work, table, snapshot)
        if not read.manifests_alone:
            few = _list_few(work, table, manifests)
            if few is None:
                _check_with_spark(work, table, read, snapshot, is_head=snapshot.snapshotId() == head.snapshotId())
            else:
                work.file_access.check_files(few)
        work.checked.add(checked)


def _check_with_spark(work: ReadsTables, table: Any, read: TableRead, snapshot: Any, *, is_head: bool) -> None:
    """The data and delete files of a snapshot whose manifests were checked, if they are many."""
    files = _list_entries(work, table, "FILES") if is_head else _files_of(work, read.parts, snapshot.snapshotId())
    work.file_access.check_frame(files, "file_path")


def _list_few(work: ReadsTables, table: Any, manifests: Sequence[Any]) -> list[str] | None:
    """The locations of a snapshot's files; None for many of them, or many manifests, which Spark reads faster.

    The counts in a manifest list are a writer's word, so this also stops after as many files.
    """
    if len(manifests) > MOST_MANIFESTS:
        return None
    kinds = [bool(manifest.content().id() == _DATA) for manifest in manifests]
    counted = {True: 0, False: 0}
    for kind, manifest in zip(kinds, manifests, strict=True):
        counted[kind] += _count_files(manifest)
    if counted[True] > MOST_LISTED or counted[False] > MOST_DELETES:
        return None
    lister, locations = _FileLister(work.session.jvm.org.apache.iceberg, table), list[str]()
    left = {True: MOST_LISTED, False: MOST_DELETES}
    for kind, manifest in zip(kinds, manifests, strict=True):
        listed = (lister.list_data if kind else lister.list_deletes)(manifest, left[kind] + 1)
        left[kind] -= len(listed)
        if left[kind] < 0:
            return None
        locations += listed
    return locations


def _count_files(manifest: Any) -> int:
    return max(manifest.addedFilesCount() or 0, 0) + max(manifest.existingFilesCount() or 0, 0)


@dataclass(frozen=True)
class _FileLister:
    """Reads the locations of files that manifests list and have not deleted. `iceberg` are Java's classes."""

    iceberg: Any
    table: Any

    def list_data(self, manifest: Any, most: int) -> list[str]:
        """Up to so many data files: Java sends them as one text, because four round trips a file take longer.

        A location with a newline becomes several, and is refused unless each of them lies where the job may read.
        """
        paths = self._read_paths(manifest, *self._access)
        try:
            text = str(self._join(self._limit(paths, most)))
        finally:
            paths.close()
        return text.split("\n") if text else []

    def list_deletes(self, manifest: Any, most: int) -> list[str]:
        """Up to so many delete files: Java lists no paths of these."""
        reader = self._read_deletes(manifest, *self._access)
        try:
            return [str(file.location()) for file in islice(iterate(reader), most)]
        finally:
            reader.close()

    @cached_property
    def _access(self) -> tuple[Any, Any]:
        return self.table.io(), self.table.specs()

    # Each look for a method is a round trip, too.
    @cached_property
    def _read_paths(self) -> Any:
        return self.iceberg.ManifestFiles.readPaths

    @cached_property
    def _read_deletes(self) -> Any:
        return self.iceberg.ManifestFiles.readDeleteManifest

    @cached_property
    def _limit(self) -> Any:
        return self.iceberg.relocated.com.google.common.collect.Iterables.limit

    @cached_property
    def _join(self) -> Any:
        return self.iceberg.relocated.com.google.common.base.Joiner.on("\n").join


def _check_snapshot(work: ReadsTables, table: Any, snapshot: Any) -> list[Any]:
    """Check a manifest list before it is opened, and the manifests that it names; return these."""
    if (location := snapshot.manifestListLocation()) is not None:
        work.file_access.check_files([str(location)])
    manifests = list(iterate(snapshot.allManifests(table.io())))
    work.file_access.check_files(str(manifest.path()) for manifest in manifests)
    return manifests


def _check_every_snapshot(work: ReadsTables, table: Any) -> None:
    file_access = work.file_access
    locations = (snapshot.manifestListLocation() for snapshot in iterate(table.snapshots()))
    file_access.check_files(str(location) for location in locations if location is not None)
    file_access.check_frame(_list_entries(work, table, "ALL_MANIFESTS"), "path")
    file_access.check_frame(_list_entries(work, table, "ALL_FILES"), "file_path")


def _list_entries(work: ReadsTables, table: Any, kind: str) -> DataFrame:
    """A metadata table over the very state that this object has."""
    jvm = work.session.jvm
    metadata_type = getattr(jvm.org.apache.iceberg.MetadataTableType, kind)
    rows = jvm.org.apache.iceberg.spark.SparkTableUtil.loadMetadataTable(work.session.java, table, metadata_type)
    return DataFrame(rows, work.session.spark)


def _files_of(work: ReadsTables, parts: Sequence[str], snapshot_id: int) -> DataFrame:
    return work.session.spark.read.option("versionAsOf", str(snapshot_id)).table(f"{work.session.name(parts)}.files")


def stores_of(lease: Lease, *, change: bool | None) -> Iterator[TableRead]:
    """The tables as the server pinned them for the task, and as they are now. Of a keyed table, both stores or one."""
    for table in lease.tables:
        if change is None or change == (len(lease.tables) > 1 and table.parts[-1] == CHANGE):
            yield TableRead(parts=table.parts)
            if table.snapshot_id is not None:
                yield TableRead(parts=table.parts, snapshot_id=table.snapshot_id)


def reads_both_stores(lease: Lease) -> JobReads:
    """A plain table, or both stores of a keyed one."""
    return JobReads(tables=list(stores_of(lease, change=None)))


def reads_main_store(lease: Lease) -> JobReads:
    """A plain table, or the base store of a keyed one."""
    return JobReads(tables=list(stores_of(lease, change=False)))


def reads_change_store(lease: Lease) -> JobReads:
    """The change store of a keyed table."""
    return JobReads(tables=list(stores_of(lease, change=True)))


def reads_manifests(lease: Lease) -> JobReads:
    """The manifests of all tables of the job, and no other file."""
    return JobReads(tables=[TableRead(parts=table.parts, manifests_alone=True) for table in lease.tables])


def reads_nothing(_: Lease) -> JobReads:
    """No file that metadata names; or the job checks each state of the metadata itself."""
    return JobReads()
