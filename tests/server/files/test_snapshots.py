"""Snapshots over Hive's files, read back by PyIceberg and by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from catalog.errors import RequirementFailed, Unavailable
from catalog.files.data_file import DataFileEntry
from catalog.hive.partition_names import NULL_NAME
from catalog.iceberg.reading import current_snapshot
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.server.files.all_types import scanned
from tests.server.files.registered import Registered
from tests.server.scans.lake_table import LakeTable, a_row


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "name": [f"n{i}" for i in ids], **more})


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Registered:
    return Registered(tmp_path / "wh", "id int; name string", "day date; city string", version=request.param)


def locations(table: Registered) -> dict[str, tuple[Any, ...]]:
    snapshot = current_snapshot(table.metadata)
    assert snapshot is not None
    live = Manifests(Storage(), table.metadata).live_files(snapshot)
    return {Path(file.location).name: file.partition for file in live}


def test_hive_files_are_read_with_their_partition_values(table: Registered) -> None:
    table.commit(
        [
            table.hive_file(["2024-01-05", "São Paulo/x=1"], rows(1, 2)),
            table.hive_file(["2024-01-06", NULL_NAME], rows(3)),
        ]
    )
    assert scanned(table) == [
        {"id": 1, "name": "n1", "day": date(2024, 1, 5), "city": "São Paulo/x=1"},
        {"id": 2, "name": "n2", "day": date(2024, 1, 5), "city": "São Paulo/x=1"},
        {"id": 3, "name": "n3", "day": date(2024, 1, 6), "city": None},
    ]
    filtered = (
        StaticTable.from_metadata(table.metadata_file).scan(row_filter="day = '2024-01-06' and id > 2").to_arrow()
    )
    assert filtered["id"].to_pylist() == [3]


def test_added_files_are_written_down_as_they_come(table: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.files.snapshots.ENTRIES_PER_MANIFEST", 2)
    files = [table.hive_file([f"2024-01-0{day}", "b"], rows(day), name=f"f{day}") for day in (2, 1, 3)]
    on_disk = []

    def coming() -> Iterator[DataFileEntry]:
        for file in files:
            on_disk.append(len(list(Path(table.metadata_file).parent.glob("*.avro"))))
            yield file

    snapshot_update = write_snapshot(table.storage, table.metadata, coming(), (), snapshot_id=7, now_ms=0)
    assert on_disk == [0, 0, 1]
    first, second, _manifest_list = snapshot_update.written
    live = Manifests(table.storage, table.metadata).live_files(snapshot_update.snapshot)
    manifests = {Path(file.location).name: file.manifest for file in live}
    assert manifests == {"f1": first, "f2": first, "f3": second}
    assert snapshot_update.snapshot["summary"]["added-data-files"] == "3"


def test_what_ends_the_files_ends_the_snapshot_and_leaves_nothing(
    table: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.files.snapshots.ENTRIES_PER_MANIFEST", 1)
    file = table.hive_file(["2024-01-01", "b"], rows(1))

    def coming() -> Iterator[DataFileEntry]:
        yield file
        yield file
        raise Unavailable("the storage is away")

    with pytest.raises(Unavailable):
        write_snapshot(table.storage, table.metadata, coming(), (), snapshot_id=7, now_ms=0)
    assert list(Path(table.metadata_file).parent.glob("*.avro")) == []


def test_a_manifest_that_is_written_again_tells_the_age_of_its_oldest_file(table: Registered) -> None:
    """PyIceberg skips deletes that are older than every manifest of data, so a younger age brings deleted rows back."""
    files = [table.hive_file([f"2024-01-0{day}", "b"], rows(day), name=f"f{day}") for day in (1, 2, 3)]
    table.commit(files[:2])
    last = table.commit(files[2:], [files[0].stats.location])
    lines = Manifests(table.storage, table.metadata).of_snapshot(last.snapshot)
    ages = {(line["added_files_count"], line["existing_files_count"]): line["min_sequence_number"] for line in lines}
    assert ages == {(1, 0): 2, (0, 1): 1}


def test_what_is_added_and_removed_adds_up(table: Registered) -> None:
    files = [table.hive_file([f"2024-01-0{day}", "b"], rows(day, 10 + day), name=f"f{day}") for day in (1, 2, 3)]
    first = table.commit(files[:2], reason="upgrade")
    assert first.snapshot["summary"]["operation"] == "append"
    assert first.snapshot["summary"]["reason"] == "upgrade"
    second = table.commit(files[2:], [files[0].stats.location])
    assert second.snapshot["summary"]["operation"] == "overwrite"
    third = table.commit([], [files[1].stats.location])
    assert third.snapshot["summary"]["operation"] == "delete"
    assert third.snapshot["parent-snapshot-id"] == second.snapshot["snapshot-id"]
    summary = third.snapshot["summary"]
    assert (summary["total-data-files"], summary["total-records"], summary["deleted-records"]) == ("1", "2", "2")
    assert summary["total-files-size"] == str(files[2].stats.size)
    assert [row["id"] for row in scanned(table)] == [13, 3]
    assert locations(table) == {"f3": files[2].partition}


def test_older_snapshots_stay_as_they_were(table: Registered) -> None:
    file = table.hive_file(["2024-01-01", "b"], rows(1), name="one")
    two = table.hive_file(["2024-01-02", "b"], rows(2), name="two")
    first = table.commit([file])
    table.commit([two], [file.stats.location])
    old = StaticTable.from_metadata(table.metadata_file).scan(snapshot_id=first.snapshot["snapshot-id"]).to_arrow()
    assert old["id"].to_pylist() == [1]


def test_only_manifests_that_hold_removed_files_are_written_again(table: Registered) -> None:
    file = table.hive_file(["2024-01-01", "b"], rows(1), name="one")
    two = table.hive_file(["2024-01-02", "b"], rows(2), name="two")
    three = table.hive_file(["2024-01-03", "b"], rows(3), name="three")
    table.commit([file])
    table.commit([two, three])
    before = {m["manifest_path"] for m in manifests_of(table)}
    snapshot_update = table.commit([], [three.stats.location])
    after = manifests_of(table)
    assert len(before & {m["manifest_path"] for m in after}) == 1
    assert len(snapshot_update.written) == 2  # one manifest and the list
    assert sorted(m["added_snapshot_id"] for m in after) == [1001, 1003]
    assert sorted(
        entry["sequence_number"] for m in after for entry in Manifests(Storage(), table.metadata).entries(m)
    ) == [1, 2]
    table.commit([], [two.stats.location])
    table.commit([three])
    assert all(m["added_files_count"] + m["existing_files_count"] for m in manifests_of(table))


def manifests_of(table: Registered) -> list[dict[str, Any]]:
    snapshot = current_snapshot(table.metadata)
    assert snapshot is not None
    return Manifests(Storage(), table.metadata).of_snapshot(snapshot)


def test_a_file_replaced_under_its_name_is_a_new_file(table: Registered) -> None:
    before = table.hive_file(["2024-01-01", "b"], rows(1))
    table.commit([before])
    after = table.hive_file(["2024-01-01", "b"], rows(7, 8))
    table.commit([after], [before.stats.location])
    assert [row["id"] for row in scanned(table)] == [7, 8]
    assert current_snapshot(table.metadata)["summary"]["total-records"] == "2"  # type: ignore[index]


def test_a_vector_stays_that_shares_its_file_with_that_of_a_removed_file(tmp_path: Path) -> None:
    lake = LakeTable(tmp_path / "wh", [[]], version=3)
    (gone,), (stays,) = lake.add(0, [a_row(1)]), lake.add(0, [a_row(2)])
    first = lake.delete_by_vector(gone)
    lake.delete_by_vector(stays, beside=first)
    lake.commit()
    snapshot_update = write_snapshot(Storage(), lake.metadata, [], [gone.path], snapshot_id=99, now_ms=0)
    entries = [
        entry["data_file"]
        for manifest in lake.manifests().of_snapshot(snapshot_update.snapshot)
        for entry in lake.manifests().entries(manifest)
    ]
    assert [(entry["file_path"], entry.get("referenced_data_file")) for entry in entries] == [
        (stays.path, None),
        (first.path, stays.path),
    ]
    assert snapshot_update.snapshot["summary"]["removed-dvs"] == "1"


def test_removing_what_is_not_there_is_refused_and_leaves_nothing(table: Registered) -> None:
    table.commit([table.hive_file(["2024-01-01", "b"], rows(1))])
    before = sorted(Path(table.metadata["location"], "metadata").iterdir())
    with pytest.raises(
        RequirementFailed, match="the table no longer has 1 of the files to remove, for example file:/gone"
    ):
        write_snapshot(table.storage, table.metadata, [], ["file:/gone"], snapshot_id=7, now_ms=0)
    assert sorted(Path(table.metadata["location"], "metadata").iterdir()) == before


def test_a_list_that_cannot_be_written_leaves_no_manifests(table: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    file = table.hive_file(["2024-01-01", "b"], rows(1))
    write = Storage.write_new

    def full(self: Storage, location: str, data: bytes) -> None:
        if "snap-" in location:
            raise Unavailable("the disk is full")
        write(self, location, data)

    monkeypatch.setattr(Storage, "write_new", full)
    with pytest.raises(Unavailable):
        write_snapshot(table.storage, table.metadata, [file], [], snapshot_id=7, now_ms=0)
    assert list(Path(table.metadata["location"], "metadata").iterdir()) == []


def test_row_ids_are_given_once_and_kept(tmp_path: Path) -> None:
    table = Registered(tmp_path / "wh", "id int; name string", "day date", version=3)
    first_file, two, three = (table.hive_file([f"2024-01-0{n}"], rows(*range(n)), name=f"f{n}") for n in (1, 2, 3))
    first = table.commit([first_file, two])
    assert (first.snapshot["first-row-id"], first.snapshot["added-rows"]) == (0, 3)
    second = table.commit([three], [first_file.stats.location])
    assert (second.snapshot["first-row-id"], second.snapshot["added-rows"]) == (3, 3)
    assert table.metadata["next-row-id"] == 6
    entries = [e for m in manifests_of(table) for e in Manifests(Storage(), table.metadata).entries(m)]
    assert {Path(e["data_file"]["file_path"]).name: e["data_file"]["first_row_id"] for e in entries} == {
        "f2": 1,
        "f3": 3,
    }
