"""Published directories that Hive has left go as orphans do; what it may read, write to or come back to stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import Conflict, LocationRefused
from catalog.files.data_file import DataFileEntry
from catalog.history.commit import TableCommit
from catalog.hive.baseline import PartitionBaseline, WatchedDirectory
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.spec import BASE
from catalog.names import RelationId, TableName
from catalog.removal.orphan_removal import KeepReason
from firn.protocol.leases import PROTOCOL
from firn.protocol.orphans import BatchState
from server.files.locations import local_path
from server.service.commit.commit_path import CommitRequest
from server.service.locations.ownership import SHARED
from server.service.optimizers.optimizers import Registration
from server.service.orphans.orphan_removal import DeletedFiles, Orphans, QuarantinedBatch
from server.service.orphans.published_locations import HiveReaders
from tests.factories import LAKE, a_relation
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.downgraded_tables import published
from tests.server.service.hive.published_tables import leased, merged, set_property, write
from tests.server.service.hive.synced_tables import relation_of, upgraded
from tests.server.service.orphans.removing import age


@dataclass
class Former:
    """A table whose partition x was published twice: nobody knows the first directory any more, and base needs it not.

    All files there are old.
    """

    beside: BesideHive
    table: HiveFiles
    first: str
    second: str

    @property
    def orphans(self) -> Orphans:
        readers = HiveReaders(self.beside.database, self.beside.syncs.planner.index)
        return replace(self.beside.services.orphans, readers=readers)

    @property
    def left(self) -> Path:
        """The file that Hive has left."""
        return path_of(f"{self.first}/p=x/a.parquet")

    @property
    def place(self) -> Path:
        return path_of(self.first).parent.parent

    def begun(self) -> Lease:
        return begun(self.beside, self.table, JobKind.REMOVE_ORPHANS)

    def ended(self, lease: Lease) -> None:
        self.beside.services.jobs.report(lease, None, error=None, result={})

    def removed(self) -> QuarantinedBatch:
        """One whole job of an optimizer that proposes all it finds."""
        lease = self.begun()
        judged = self.orphans.take(lease, [f"file://{path}" for path in self.place.rglob("*") if path.is_file()], [])
        self.ended(lease)
        return judged

    def looked_back(self, *, days: int) -> DeletedFiles:
        """A job that comes so much later sees to what lies aside."""
        with self.beside.database.writing() as uow:
            for batch in uow.orphans.of_table(relation_of(self.beside, self.table).id, list(BatchState)):
                uow.orphans.put(replace(batch, taken_at=batch.taken_at - timedelta(days=days)))
        lease = self.begun()
        done = self.orphans.end_overdue(lease)
        self.ended(lease)
        return done

    def point(self, part: str, location: str) -> None:
        """Somebody's ALTER TABLE … PARTITION … SET LOCATION."""
        storage = a_storage(location, "id bigint; v string")
        self.beside.metastore.add_partition("db", self.table.short, a_hive_partition(part, storage=storage))

    def baseline(self, change: Callable[[PartitionBaseline], PartitionBaseline]) -> None:
        """Change what is known of partition x."""
        relation = relation_of(self.beside, self.table)
        with self.beside.database.writing() as uow:
            baseline = PartitionBaseline.from_json(uow.baselines.of(relation.id)["p=x"])
            uow.baselines.put(relation.id, {"p=x": change(baseline).to_json()})


def begun(beside: BesideHive, table: HiveFiles, kind: JobKind) -> Lease:
    services = beside.services
    services.planner.run_now(LAKE, beside.table_name(table), kind, {})
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    leased_job = services.jobs.take(services.optimizers.register(about).id, [kind])
    assert leased_job is not None
    return leased_job.lease


def path_of(location: str) -> Path:
    return Path(str(local_path(location)))


@pytest.fixture
def former(beside: BesideHive, request: pytest.FixtureRequest) -> Former:
    table = upgraded(beside, *getattr(request, "param", ("id",)))
    first = published(beside, table, x=(1, 7)).location
    merged(beside, table, "x", 1, 8)
    second = leased(beside, table)
    write(f"{second.location}/p=x/b.parquet", 1, 8)
    beside.published.accept(second.lease, second.location, rows=2)
    beside.services.jobs.report(second.lease, outcome=None, error=None, result={})
    superseded = Former(beside, table, first, second.location)
    superseded.baseline(lambda baseline: replace(baseline, watched=()))
    forgotten(beside, table)
    age(path for path in superseded.place.rglob("*") if path.is_file())
    return superseded


def forgotten(beside: BesideHive, table: HiveFiles) -> None:
    """Base knows its head alone, as once it has expired the rest."""
    set_property(beside, table, "write.metadata.previous-versions-max", "1")
    metadata = beside.metadata(table)
    assert metadata is not None
    old = [
        snapshot["snapshot-id"]
        for snapshot in metadata["snapshots"]
        if snapshot["snapshot-id"] != metadata["current-snapshot-id"]
    ]
    updates = [{"action": "remove-snapshots", "snapshot-ids": old}]
    change = TableCommit(name=beside.target_name(table), requirements=[], updates=updates)
    lease = begun(beside, table, JobKind.EXPIRE)
    beside.services.jobs.begin_commit(lease)
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change], lease=lease))
    beside.services.jobs.report(lease, outcome=None, error=None, result={})
    set_property(beside, table, "comment", "so that the log names no metadata with the old snapshots")


@pytest.mark.parametrize("former", [(), ("id",)], indirect=True)
def test_a_directory_that_nobody_needs_goes_and_the_current_one_stays(former: Former) -> None:
    content = former.left.read_bytes()
    judged = former.removed()
    assert [path_of(orphan.location) for orphan in judged.quarantined] == [former.left]
    assert judged.kept == {KeepReason.IN_HIVE: 1}
    assert not former.left.exists()
    assert path_of(f"{former.second}/p=x/b.parquet").exists()
    assert former.looked_back(days=6).deleted_files == 0
    [back] = former.orphans.quarantine.restore(relation_of(former.beside, former.table).id)
    assert (path_of(back), former.left.read_bytes()) == (former.left, content)


def test_it_is_deleted_when_its_time_aside_is_over(former: Former) -> None:
    former.removed()
    assert former.looked_back(days=8).deleted_files == 1


def test_what_hive_s_writers_added_to_the_current_directory_stays(former: Former) -> None:
    added = path_of(f"{former.second}/p=x/000000_0")
    write(f"file://{added}", 9)
    age([added])
    assert former.removed().kept[KeepReason.IN_HIVE] == 2
    assert added.exists()


def watched(baseline: PartitionBaseline, location: str) -> PartitionBaseline:
    return replace(baseline, watched=(WatchedDirectory(location=location, files=(), published_through=0, since_ns=0),))


def publishing(baseline: PartitionBaseline, location: str) -> PartitionBaseline:
    return replace(baseline, publishing=WatchedDirectory(location=location, files=(), published_through=0, since_ns=0))


def at(baseline: PartitionBaseline, location: str) -> PartitionBaseline:
    return replace(baseline, signals=replace(baseline.signals, location=location))


@pytest.mark.parametrize("known", [watched, publishing, at])
def test_what_the_books_know_stays(
    former: Former, known: Callable[[PartitionBaseline, str], PartitionBaseline]
) -> None:
    former.baseline(lambda baseline: known(baseline, f"{former.first}/p=x"))
    assert former.removed().kept == {KeepReason.IN_HIVE: 2}
    assert former.left.exists()


@pytest.mark.parametrize(
    "spelled",
    [
        lambda location: location,
        lambda location: location.replace("file:///", "file:/"),
        lambda location: location.replace("file://", "hdfs://other:8020/mounted/here").replace("p=x", "p%3Dx"),
        lambda location: location.removesuffix("/p=x"),
    ],
    ids=["same", "slashes", "another mount", "above"],
)
def test_what_hive_points_at_stays_however_it_is_written(former: Former, spelled: Callable[[str], str]) -> None:
    former.point("elsewhere", spelled(f"{former.first}/p=x"))
    assert former.removed().kept == {KeepReason.IN_HIVE: 2}
    assert former.left.exists()


def test_a_metastore_that_is_away_keeps_everything_that_was_published(former: Former) -> None:
    former.beside.metastore.answers = False
    assert former.removed().kept == {KeepReason.HIVE_UNKNOWN: 2}
    assert former.left.exists()
    former.beside.metastore.answers = True
    former.removed()
    former.beside.metastore.answers = False
    assert former.looked_back(days=8).deleted_files == 0
    former.beside.metastore.answers = True
    assert former.looked_back(days=0).deleted_files == 1


def renamed(former: Former) -> None:
    """Hive's table has another name, under which it still reads what was published."""
    former.beside.metastore.drop_table("db", former.table.short)


def renamed_and_made_anew(former: Former) -> None:
    renamed(former)
    storage = a_storage(f"file:{former.table.path}", "id bigint; v string")
    anew = a_hive_table(name=former.table.short, storage=storage, partitioned_by="p string")
    former.beside.metastore.add_table(replace(anew, created=(anew.created or 0) + 1))


@pytest.mark.parametrize("act", [renamed, renamed_and_made_anew])
def test_another_table_of_hive_s_name_says_nothing_of_what_is_read(
    former: Former, act: Callable[[Former], None]
) -> None:
    act(former)
    assert former.removed().kept == {KeepReason.HIVE_UNKNOWN: 2}
    assert former.left.exists()


def test_what_a_snapshot_needs_stays(former: Former) -> None:
    """Base stands on it again, as after a rollback."""
    metadata = former.beside.metadata(former.table)
    assert metadata is not None
    files = former.beside.upgrades.files
    [stats] = files.footers(metadata["schemas"][-1], [f"file://{former.left}"])
    register(former, stats)
    assert former.removed().kept[KeepReason.NEEDED] == 1
    assert former.left.exists()


def register(former: Former, stats: Any) -> None:
    metadata = former.beside.metadata(former.table)
    assert metadata is not None
    entry = DataFileEntry(stats=stats, partition=("x",))
    snapshot_update = former.beside.upgrades.files.write_snapshot(
        metadata,
        [entry],
        (),
        snapshot_id=77,
        now_ms=metadata["last-updated-ms"],
        summary_extra={"operation": "replace"},
    )
    name = TableName(former.beside.table_name(former.table).as_namespace, BASE)
    change = TableCommit(name=name, requirements=snapshot_update.requirements(), updates=snapshot_update.updates())
    former.beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))


def test_a_young_file_stays(former: Former) -> None:
    age([former.left], -8 * 86_400)
    assert former.removed().kept[KeepReason.YOUNG] == 1
    assert former.left.exists()


def a_table_in_it(former: Former) -> None:
    with former.beside.database.writing() as uow:
        name = TableName(("db",), "inside")
        inside = f"file://{former.place}/t"
        uow.relations.add(a_relation(id=RelationId(uuid4()), location=inside, name=name, metadata_location=None))


def a_partition_of_another_in_it(former: Former) -> None:
    with former.beside.database.writing() as uow:
        name = TableName(("db",), "beside")
        other = a_relation(id=RelationId(uuid4()), location="s3://far/away", name=name, metadata_location=None)
        uow.relations.add(other)
        uow.baselines.put(other.id, {"p=1": {"location": f"file://{former.place}/p=1"}})


@pytest.mark.parametrize("act", [a_table_in_it, a_partition_of_another_in_it])
@pytest.mark.parametrize("lately", [False, True], ids=["before", "while the job runs"])
def test_a_place_that_others_use_is_left_alone(
    former: Former, monkeypatch: pytest.MonkeyPatch, act: Callable[[Former], None], *, lately: bool
) -> None:
    if not lately:
        act(former)
        assert former.removed().kept == {KeepReason.ELSEWHERE: 2}
        lease = former.begun()
        with former.beside.database.reading() as uow:
            job = uow.jobs.get(lease.job_id)
        task = former.beside.services.tasks.build(job).model_dump(mode="json")
        assert task["published"] is None
        assert SHARED in task["unrepresentable"]
    else:
        files = former.orphans.files
        real = files.can_move

        def meanwhile(location: str, directory: str) -> bool:
            monkeypatch.undo()
            act(former)
            return real(location, directory)

        monkeypatch.setattr(files, "can_move", meanwhile)
        with pytest.raises(Conflict, match=SHARED):
            former.removed()
    assert former.left.exists()


def test_a_place_of_an_earlier_setting_is_left_alone(former: Former, tmp_path: Path) -> None:
    former.removed()
    elsewhere = (tmp_path / "published").as_uri()
    former.beside.services.namespaces.change_catalog_properties(
        LAKE, updates={"firn.storage.allowed-locations": elsewhere}, removals=()
    )
    set_property(former.beside, former.table, "firn.hive.publish.location", elsewhere)
    assert former.removed().kept == {KeepReason.ELSEWHERE: 1}
    assert former.looked_back(days=8).deleted_files == 0  # nor is what lies aside out of it


def test_what_hive_is_pointed_at_while_it_is_aside_comes_back(former: Former) -> None:
    former.removed()
    former.point("x", f"{former.first}/p=x")
    assert former.looked_back(days=8).deleted_files == 0
    assert former.left.exists()


def test_what_hive_is_pointed_at_while_it_is_moved_comes_back(former: Former, monkeypatch: pytest.MonkeyPatch) -> None:
    files = former.orphans.files
    real = files.move

    def meanwhile(location: str, to: str) -> None:
        real(location, to)
        monkeypatch.undo()
        former.point("x", f"{former.first}/p=x")

    monkeypatch.setattr(files, "move", meanwhile)
    assert former.removed().quarantined == []
    assert former.left.exists()


def test_a_publish_and_a_search_for_orphans_exclude_one_another(former: Former) -> None:
    """So no search meets a directory that a publish is about to write to."""
    merged(former.beside, former.table, "x", 1, 9)
    former.begun()
    outcome = former.beside.publish_requests.publish(LAKE, former.table.name)
    assert (outcome.job, outcome.message) == (None, "a remove-orphans job is running")


def test_a_place_within_another_table_s_is_refused(former: Former) -> None:
    other = upgraded(former.beside, "id")
    merged(former.beside, other, "x", 1, 7)
    with pytest.raises(LocationRefused, match="lies in a directory that Firn reserves"):
        set_property(former.beside, other, "firn.hive.publish.location", f"{former.first}/inside")


def test_what_was_published_outlives_a_purge(former: Former) -> None:
    beside, relation = former.beside, relation_of(former.beside, former.table)
    beside.services.keyed.drop(LAKE, beside.table_name(former.table), purge=True)
    beside.services.purges.purge(LAKE, relation.id)
    assert sum(beside.services.purges.activate().purged for _ in range(5)) == 1
    assert [path.exists() for path in (former.left, path_of(f"{former.second}/p=x/b.parquet"))] == [True, True]


def test_a_dropped_partition_with_such_a_directory_is_rid_of_its_overwrite_once_that_is_over(former: Former) -> None:
    left = WatchedDirectory(location=former.first, files=(), published_through=0, since_ns=time.time_ns())
    former.baseline(lambda baseline: replace(baseline.mark_dropped(1), watched=(left,)))
    former.table.drop("x")
    former.beside.sync(former.table)
    relation = relation_of(former.beside, former.table)
    with former.beside.database.reading() as uow:
        baseline = PartitionBaseline.from_json(uow.baselines.of(relation.id)["p=x"])
    assert baseline.is_dropped
    assert baseline.lost_ns is None
