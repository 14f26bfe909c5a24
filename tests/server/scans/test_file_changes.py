"""Files that changed between any two snapshots of random small tables: what differs between their whole scans."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from catalog.errors import Invalid, LocationRefused
from catalog.ports.scan import FileChange, FileTask
from catalog.scan.deletes import DeleteFile, DeleteKind
from catalog.scan.expression import TRUE
from catalog.scan.request import ScanRequest
from catalog.scan.scan import Scan
from server.files import scans
from server.files.file_changes import pair_files
from server.files.scans import ManifestScans
from server.files.storage import Storage
from tests.server.scans.lake_table import LakeTable, a_row
from tests.server.scans.test_planning import built, histories, planned, rule_of

Told = tuple[str, frozenset[str]]


def tell(task: FileTask) -> Told:
    """A file, and its deletes."""
    return task.content["file-path"], frozenset(str(delete.content["file-path"]) for delete in task.deletes)


def scan_of(table: LakeTable, snapshot_id: int | None) -> Scan:
    scan = Scan.of(table.metadata, ScanRequest(snapshot_id=snapshot_id))
    return scan.without_snapshots() if snapshot_id is None else scan


def changes_of(table: LakeTable, before: int | None, after: int | None) -> list[FileChange]:
    both = (scan_of(table, before), scan_of(table, after))
    return list(ManifestScans(Storage()).changes(*both, rule_of(table)))


def read(table: LakeTable, snapshot_id: int | None) -> Counter[Told]:
    return Counter(map(tell, planned(table, {"snapshot-id": snapshot_id}))) if snapshot_id is not None else Counter()


@settings(max_examples=40)
@given(history=histories())
def test_changed_files_are_what_two_scans_do_not_share(history: Any) -> None:
    with TemporaryDirectory() as place:
        table = built(Path(place), history)
        snapshots = [None, *(snapshot["snapshot-id"] for snapshot in table.metadata["snapshots"])]
        for before in snapshots:
            for after in snapshots:
                changes = changes_of(table, before, after)
                first, last = read(table, before), read(table, after)
                assert Counter(tell(change.before) for change in changes if change.before) == first - last
                assert Counter(tell(change.after) for change in changes if change.after) == last - first
                both = [change for change in changes if change.before and change.after]
                assert all(tell(change.before)[0] == tell(change.after)[0] for change in both)  # type: ignore[arg-type]


def test_a_file_that_the_table_may_not_name_is_not_told(tmp_path: Path) -> None:
    table = LakeTable(tmp_path, [[]])
    table.add(0, [a_row(1)])
    scan = scan_of(table, table.commit())
    rule = replace(rule_of(table), hive_locations=[f"{tmp_path}/metadata"])
    with pytest.raises(LocationRefused):
        list(ManifestScans(Storage()).changes(scan.without_snapshots(), scan, rule))


def test_a_comparison_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "MOST_COMPARED", 2)
    table = LakeTable(tmp_path, [[]])
    table.add(0, [a_row(1)])
    first = table.commit()
    table.add(0, [a_row(2)])
    table.add(0, [a_row(3)])
    last = table.commit()
    assert len(changes_of(table, first, last)) == len(changes_of(table, last, first)) == 2
    monkeypatch.setattr(scans, "MOST_COMPARED", 1)
    assert len(changes_of(table, first, last)) == 2
    with pytest.raises(Invalid, match="more than 1 files"):
        changes_of(table, last, first)


def test_vectors_in_one_file_are_told_apart() -> None:
    first, second = (read_with_vector(offset) for offset in (4, 44))
    assert list(pair_files([first], [first])) == []
    assert list(pair_files([first], [second])) == [FileChange(before=first, after=second)]


def read_with_vector(offset: int) -> FileTask:
    content = {"file-path": "deletes.puffin", "content-offset": offset}
    vector = DeleteFile(kind=DeleteKind.VECTOR, spec_id=0, partition=(), sequence_number=2, content=content)
    return FileTask(content={"file-path": "data.parquet"}, rows=1, deletes=[vector], residual=TRUE)


def test_a_file_that_is_listed_twice_counts_twice() -> None:
    task = read_with_vector(4)
    assert list(pair_files([task], [task, task])) == [FileChange(before=None, after=task)]
    assert list(pair_files([task, task], [task])) == [FileChange(before=task, after=None)]
    assert list(pair_files([task, task], [task, task])) == []
