"""How far Hive is behind a table, as files tell it: partitions that differ, and since when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from catalog.errors import NotFound
from catalog.history.commit import TableCommit
from catalog.iceberg.reading import current_snapshot
from server.service.commit.commit_path import CommitRequest
from server.service.hive.freshness import PublishPreview
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri
from tests.server.service.hive.downgraded_tables import appended, published
from tests.server.service.hive.synced_tables import upgraded


def behind(beside: BesideHive, table: HiveFiles) -> PublishPreview:
    return beside.freshness.behind(LAKE, table.name)


def head_came(beside: BesideHive, table: HiveFiles) -> datetime:
    snapshot = current_snapshot(beside.metadata(table) or {})
    assert snapshot is not None
    return datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC)


def removed(beside: BesideHive, table: HiveFiles, location: str) -> None:
    """An engine takes a file away and puts none in its place."""
    metadata = beside.metadata(table)
    assert metadata is not None
    snapshot = beside.upgrades.files.write_snapshot(
        metadata, [], {location}, snapshot_id=7, now_ms=metadata["last-updated-ms"] + 1
    )
    change = TableCommit(
        name=beside.table_name(table), requirements=snapshot.requirements(), updates=[*snapshot.updates()]
    )
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))


def test_partitions_that_engines_have_written_to_differ_until_they_are_published(beside: BesideHive) -> None:
    table = upgraded(beside)
    assert (behind(beside, table).differing, behind(beside, table).since) == (0, None)
    appended(beside, table, None, 5)
    first = head_came(beside, table)
    appended(beside, table, None, 6)
    assert (behind(beside, table).differing, behind(beside, table).since) == (1, first)
    appended(beside, table, None, 8, part="new")
    work = behind(beside, table)
    assert (work.differing, work.since, work.new, work.names) == (2, first, 1, ("p=x",))
    assert (work.files, work.rows, work.pending_rows) == (4, 5, 0)
    assert work.bytes > 0
    published(beside, table, x=(1, 2, 5, 6), new=(8,))
    work = behind(beside, table)
    assert (work.differing, work.since, work.files, work.rows) == (0, None, 0, 0)


def test_files_that_have_only_gone_have_no_time(beside: BesideHive) -> None:
    table = upgraded(beside)
    [file] = (table.path / "p=x").iterdir()
    removed(beside, table, uri(file))
    assert (behind(beside, table).differing, behind(beside, table).since) == (1, None)


def test_a_table_that_is_not_upgraded_is_not_behind(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(NotFound, match="has no table over"):
        behind(beside, table)
