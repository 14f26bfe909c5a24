"""What was dropped comes back as it was, or says why it cannot."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from catalog.errors import AlreadyExists, Conflict, Invalid, NotFound
from catalog.jobs.job import JobKind, JobStatus
from catalog.names import TableName
from firn.protocol.dropped import FilesState
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake, definition
from tests.server.service.dropping import append_files, files_below, keep, listed, path_of, unlisted

OTHER = TableName(("db",), "other")


def undrop(lake: Lake, to: TableName | None = None) -> None:
    lake.services.undrops.undrop(LAKE, listed(lake)[0].id, to=to)


def test_a_table_comes_back_with_its_id_metadata_statistics_and_history(lake: Lake) -> None:
    lake.create()
    append_files(lake)
    with lake.services.database.reading() as uow:
        before = uow.relations.find(LAKE, PLAIN)
        assert before is not None
        stats = uow.stats.get(before.id)
    lake.services.tables.drop(LAKE, PLAIN)
    with lake.services.database.reading() as uow:
        assert uow.relations.find(LAKE, PLAIN) is None
    undrop(lake)
    assert listed(lake) == []
    with lake.services.database.reading() as uow:
        assert uow.relations.find(LAKE, PLAIN) == before
        assert uow.stats.get(before.id) == stats
        operations = [event.operation for event in uow.events.list(LAKE, [before.id], limit=10).items]
    assert operations == ["undrop", "drop", "append", "create"]


def test_a_v1_table_without_manifest_lists_comes_back_only_with_its_files(lake: Lake) -> None:
    lake.create()
    data = append_files(lake)
    old = unlisted(lake)
    lake.services.tables.register(LAKE, PLAIN, lake.services.metadata.write(old["location"], 99, old), overwrite=True)
    lake.services.drop(LAKE, PLAIN)
    done = lake.services.undrops.undrop(LAKE, listed(lake, PLAIN)[0].id)
    assert (done.files.checked >= 4, done.files.missing) == (True, [])
    lake.services.drop(LAKE, PLAIN)
    data[0].unlink()
    with pytest.raises(Conflict, match=r"1 of \d checked files are missing"):
        lake.services.undrops.undrop(LAKE, listed(lake, PLAIN)[0].id)


def test_a_keyed_table_comes_back_with_its_stores_and_versions(lake: Lake) -> None:
    lake.create_keyed()
    append_files(lake, CHANGE)
    keyed, change = lake.keyed(), lake.metadata(CHANGE)
    with lake.services.database.reading() as uow:
        versions = uow.keyed.versions(keyed.relation_id, limit=10)
    lake.services.drop(LAKE, ORDERS)
    undrop(lake)
    assert (lake.keyed(), lake.metadata(CHANGE)) == (keyed, change)
    with lake.services.database.reading() as uow:
        assert uow.keyed.versions(keyed.relation_id, limit=10) == versions
    append_files(lake, CHANGE)
    assert lake.keyed().pending_commits == 2


def test_a_keyed_table_comes_back_under_another_name_with_its_stores(lake: Lake) -> None:
    lake.create_keyed()
    lake.services.drop(LAKE, ORDERS)
    undrop(lake, OTHER)
    append_files(lake, TableName(OTHER.as_namespace, "change"))
    assert lake.keyed(OTHER).pending_commits == 1


def test_the_name_is_free_at_once_and_a_new_table_lies_elsewhere(lake: Lake) -> None:
    lake.create()
    old = lake.metadata(PLAIN)["location"]
    lake.services.tables.drop(LAKE, PLAIN)
    lake.create()
    assert lake.metadata(PLAIN)["location"] != old
    with pytest.raises(AlreadyExists, match="another table of that name") as refused:
        undrop(lake)
    assert "--to" in (refused.value.hint or "")
    assert len(listed(lake)) == 1
    undrop(lake, OTHER)
    assert lake.metadata(OTHER)["location"] == old


def test_a_namespace_that_is_gone_is_made_again(lake: Lake) -> None:
    name = TableName(("a", "b"), "t")
    lake.services.namespaces.ensure(LAKE, name.namespace)
    lake.create(name)
    lake.services.tables.drop(LAKE, name)
    lake.services.namespaces.drop(LAKE, ("a", "b"))
    lake.services.namespaces.drop(LAKE, ("a",))
    undrop(lake)
    assert lake.metadata(name)["location"]


def test_a_dry_run_says_what_would_come_back_and_changes_nothing(lake: Lake) -> None:
    lake.create()
    append_files(lake, files=3)
    lake.services.tables.drop(LAKE, PLAIN)
    would = lake.services.undrops.undrop(LAKE, listed(lake)[0].id, to=OTHER, dry_run=True)
    assert ([str(relation.name) for relation in would.restored], would.files.checked) == (["db.other"], 6)
    assert len(listed(lake)) == 1
    with lake.services.database.reading() as uow:
        assert uow.relations.find(LAKE, OTHER) is None


def test_the_same_request_again_is_answered_as_before(lake: Lake) -> None:
    lake.create()
    lake.services.tables.drop(LAKE, PLAIN)
    entry = listed(lake)[0]
    first = lake.services.undrops.undrop(LAKE, entry.id)
    assert lake.services.undrops.undrop(LAKE, entry.id).restored == first.restored


def test_what_was_never_dropped_is_not_found(lake: Lake) -> None:
    with pytest.raises(NotFound, match="has no dropped table with the id"):
        lake.services.undrops.undrop(LAKE, uuid4())


def test_a_table_that_an_engine_has_purged_is_listed_as_gone_and_stays_dropped(lake: Lake) -> None:
    lake.create()
    append_files(lake)
    location = lake.metadata(PLAIN)["location"]
    lake.services.tables.drop(LAKE, PLAIN)
    assert list(lake.services.undrops.file_states(listed(lake)).values()) == [FilesState.PRESENT]
    for path in files_below(location):
        path.unlink()
    assert list(lake.services.undrops.file_states(listed(lake)).values()) == [FilesState.GONE]
    with pytest.raises(Conflict, match="files are gone") as refused:
        undrop(lake)
    assert "--keep-files" in (refused.value.hint or "")
    lake.services.purges.purge(LAKE, listed(lake)[0].id, keep_files=True)
    assert listed(lake) == []


@pytest.mark.parametrize("pattern", ["data/*.parquet", "metadata/*-m0.avro", "metadata/snap-*.avro"])
def test_one_missing_file_of_the_current_snapshot_is_enough(lake: Lake, pattern: str) -> None:
    lake.create()
    append_files(lake)
    location = lake.metadata(PLAIN)["location"]
    lake.services.tables.drop(LAKE, PLAIN)
    next(path_of(location).glob(pattern)).unlink()
    with pytest.raises(Conflict, match="files are gone: 1 of"):
        undrop(lake)


def test_a_catalog_that_keeps_nothing_forgets_at_once(lake: Lake) -> None:
    keep(lake, "0")
    lake.create()
    append_files(lake)
    location = lake.metadata(PLAIN)["location"]
    lake.services.tables.drop(LAKE, PLAIN)
    assert listed(lake) == []
    assert files_below(location)


@pytest.mark.parametrize("text", ["soon", "7", "-1 d"])
def test_a_retention_that_is_no_duration_is_refused(lake: Lake, text: str) -> None:
    with pytest.raises(Invalid, match=r"firn\.drop\.retention"):
        keep(lake, text)


def test_a_table_that_a_job_worked_on_comes_back_with_its_changes(lake: Lake) -> None:
    lake.create_keyed()
    append_files(lake, CHANGE)
    lease = lake.lease(JobKind.MERGE)
    lake.services.drop(LAKE, ORDERS)
    undrop(lake)
    assert lake.keyed().pending_commits == 1
    assert lake.job(lease).status is JobStatus.CANCELED
    assert lake.lease(JobKind.MERGE) != lease


def test_a_catalog_is_not_dropped_while_it_keeps_dropped_tables(lake: Lake) -> None:
    lake.create()
    lake.services.tables.drop(LAKE, PLAIN)
    lake.services.namespaces.drop(LAKE, ("db",))
    with pytest.raises(Conflict, match="keeps 1 dropped"):
        lake.services.namespaces.drop_catalog(LAKE)
    lake.services.namespaces.drop_catalog(LAKE, forget_dropped=True)
    assert not lake.services.namespaces.catalogs()


def test_a_linked_table_comes_back_linked_unless_hives_table_was_upgraded_again(lake: Lake) -> None:
    lake.create()
    linked(lake, PLAIN)
    lake.services.tables.drop(LAKE, PLAIN)
    undrop(lake)
    with lake.services.database.reading() as uow:
        assert [relation.name for relation in uow.relations.linked_to_hive(LAKE)] == [PLAIN]
    lake.services.tables.drop(LAKE, PLAIN)
    lake.services.tables.create(LAKE, definition(OTHER))
    linked(lake, OTHER)
    with pytest.raises(Conflict, match=r"upgraded again, to db\.other"):
        undrop(lake)


def linked(lake: Lake, name: TableName) -> None:
    """As an upgrade leaves it: the relation names its Hive table."""
    with lake.services.database.writing() as uow:
        relation = uow.relations.find(LAKE, name)
        assert relation is not None
        uow.relations.add(replace(uow.dropped.take(relation.id), hive_name="shop.orders"))
