"""Files of a linked table that cannot be read: their partition waits and is named, every other is taken over."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import Unavailable
from catalog.jobs.job import Job
from firn.protocol.leases import PROTOCOL
from server.files.storage import Storage
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.optimizers.optimizers import Registration
from tests.server.service.hive.altered_columns import staged_for
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged
from tests.server.service.hive.links import drift_of
from tests.server.service.hive.published_tables import merged, set_property
from tests.server.service.hive.sync_jobs import Optimizer
from tests.server.service.hive.synced_tables import make_due, upgraded
from tests.server.service.hive.trouble import meanwhile, refusing

Spoil = Callable[[Path, pytest.MonkeyPatch], None]


def plain(beside: BesideHive) -> HiveFiles:
    return upgraded(beside)


def keyed(beside: BesideHive) -> HiveFiles:
    return upgraded(beside, "id")


def trusting(beside: BesideHive) -> HiveFiles:
    table = upgraded(beside, "id")
    set_property(beside, table, "firn.hive.keyed-sync", "append-without-check")
    return table


def cut_off(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    aged(path, LONG_AGO_NS)


def of_another_type(path: Path, _: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"id": ["four"], "v": ["v"]}), path)
    aged(path, LONG_AGO_NS)


def closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", refusing(path.name, os.open))


SPOILT = [
    (cut_off, "is not a readable Parquet file", "Remove or rewrite the file"),
    (of_another_type, "column 'id' is a long in the table and a BYTE_ARRAY", "rewrite the file with the table's type"),
    (closed, "Permission denied", "check owner and mode"),
]


def carried_out(beside: BesideHive, table: HiveFiles, outcome: SyncResult) -> set[str]:
    """The partitions that a sync's job was to read; it is worked off."""
    if outcome.job is None:
        return set()
    read = split_name(beside, outcome.job)
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    Optimizer(table, beside.services.optimizers.register(about).id).work(beside)
    return read


def split_name(beside: BesideHive, job: Job) -> set[str]:
    return {unit["values"][0] for unit in staged_for(beside, job).task["units"]}


@pytest.mark.parametrize("create_table", [plain, keyed, trusting])
@pytest.mark.parametrize(("spoil", "message", "do"), SPOILT)
def test_only_the_partition_of_an_unreadable_file_waits_until_it_is_mended(
    beside: BesideHive,
    monkeypatch: pytest.MonkeyPatch,
    create_table: Callable[[BesideHive], HiveFiles],
    spoil: Spoil,
    message: str,
    do: str,
) -> None:
    """As on an object store, where nothing but a listing tells of files that came or were mended."""
    monkeypatch.setattr("server.files.listing.Listings.modified_ns", lambda *_: None)
    table = create_table(beside)
    bad = table.add("x", 4)
    table.add("y", 5)
    whole = bad.read_bytes()
    with monkeypatch.context() as spoilt:
        spoil(bad, spoilt)
        outcome = beside.sync(table)
        assert outcome.conflict
        assert outcome.message.startswith("partitions new files: 1; partition p=x is not taken over: ")
        for words in (bad.name, message, do, f"The file is {bad.owner()}'s"):
            assert words in outcome.message
        assert carried_out(beside, table, outcome) == ({"y"} if create_table is keyed else set())
        assert outcome.message.endswith(drift_of(beside, table))
        if create_table is not keyed:
            assert beside.live(table) == table.files() - {f"file:{bad}"}
        again = beside.sync(table)
        assert (again.job, again.conflict) == (None, True)
    bad.write_bytes(whole)
    aged(bad, LONG_AGO_NS + 1)
    make_due(beside, table)
    assert beside.syncs.activate().changed == 1
    with beside.database.reading() as uow:
        [relation] = uow.relations.linked_to_hive(table_catalog(beside))
        job = uow.jobs.active_of(relation.id)
    if create_table is keyed:
        assert job is not None
        assert split_name(beside, job) == {"x"}
    else:
        assert beside.live(table) == table.files()
        assert drift_of(beside, table) is None


def table_catalog(beside: BesideHive) -> Any:
    with beside.database.reading() as uow:
        [catalog] = uow.catalogs.list()
    return catalog.name


@pytest.mark.parametrize("create_table", [plain, keyed, trusting])
def test_a_file_that_vanishes_while_it_is_looked_into_holds_up_its_partition_alone(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, create_table: Callable[[BesideHive], HiveFiles]
) -> None:
    table = create_table(beside)
    gone = table.add("x", 4)
    table.add("y", 5)
    meanwhile(monkeypatch, gone.unlink)
    outcome = beside.sync(table)
    assert (outcome.message, outcome.conflict) == ("partitions new files: 1", False)
    assert carried_out(beside, table, outcome) == ({"y"} if create_table is keyed else set())
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


@pytest.mark.parametrize("create_table", [plain, keyed])
def test_a_directory_that_may_not_be_listed_holds_up_its_partition_alone(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, create_table: Callable[[BesideHive], HiveFiles]
) -> None:
    table = create_table(beside)
    before = beside.live(table)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refusing("p=x", os.scandir))
        table.add("y", 5)
        outcome = beside.sync(table)
        assert "partition p=x is not taken over: cannot list" in outcome.message
        assert "check owner and mode" in outcome.message
        assert carried_out(beside, table, outcome) == ({"y"} if create_table is keyed else set())
        assert before <= beside.live(table), "a directory that is not shown is not empty"
    make_due(beside, table)
    assert beside.syncs.activate().conflicts == 0
    assert drift_of(beside, table) is None


def test_a_storage_that_does_not_answer_is_no_trouble_of_a_partition(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask for each file in turn would take hours."""
    table = upgraded(beside)
    table.add("x", 4)

    def away(_: Storage, location: str, __: int) -> tuple[bytes, int]:
        raise Unavailable(f"cannot read {location}: connection refused")

    monkeypatch.setattr(Storage, "tail", away)
    with pytest.raises(Unavailable, match="connection refused"):
        beside.sync(table)


@pytest.mark.parametrize("create_table", [keyed, trusting])
def test_rows_without_a_key_hold_up_their_partition_alone(
    beside: BesideHive, create_table: Callable[[BesideHive], HiveFiles]
) -> None:
    table = create_table(beside)
    bad = table.add("x", None)
    table.add("y", 5)
    outcome = beside.sync(table)
    assert f"partition p=x is not taken over: file:{bad} holds nulls in 'id' (1 found)" in outcome.message
    assert carried_out(beside, table, outcome) == ({"y"} if create_table is keyed else set())
    bad.unlink()
    assert not beside.sync(table).conflict


def test_a_partition_without_a_key_in_its_name_waits(beside: BesideHive) -> None:
    table = upgraded(beside, "id", "p")
    table.add("__HIVE_DEFAULT_PARTITION__", 4)
    table.add("y", 5)
    outcome = beside.sync(table)
    assert "its value of 'p' is null" in outcome.message
    assert carried_out(beside, table, outcome) == {"y"}


def overwritten(table: HiveFiles, part: str, number: int) -> Path:
    for path in (table.path / f"p={part}").iterdir():
        path.unlink()
    return table.add(part, number)


def test_nothing_is_built_anew_while_base_lacks_files_of_a_partition_that_waits(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild reads base's rows of all partitions and would fail each time; rows that came need none of them."""
    table = upgraded(beside, "id")
    bad = overwritten(table, "x", 4)
    whole = bad.read_bytes()
    cut_off(bad, monkeypatch)
    overwritten(table, "y", 5)
    table.add("z", 6)
    outcome = beside.sync(table)
    assert "partition p=x is not taken over" in outcome.message
    assert "1 more partition waits too" in outcome.message
    assert carried_out(beside, table, outcome) == {"z"}
    bad.write_bytes(whole)
    aged(bad, LONG_AGO_NS + 10**9)
    outcome = beside.sync(table)
    assert not outcome.conflict
    assert outcome.job is not None
    assert split_name(beside, outcome.job) == {"x", "y"}


def test_others_are_built_anew_where_base_has_all_its_files(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 2)  # base stands on a file of its own there
    cut_off(overwritten(table, "x", 4), monkeypatch)
    overwritten(table, "y", 5)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert carried_out(beside, table, outcome) == {"y"}
