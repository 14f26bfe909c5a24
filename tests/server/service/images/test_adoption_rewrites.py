"""Merges by adoption that write files of base again: a server in this process, and the optimizer's own code.

See docs/protocols.md, rule 5.6. `auto` lets an adoption write small files of base again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

from catalog.iceberg.reading import current_snapshot
from catalog.jobs import leases
from catalog.jobs.job import JobStatus
from firn.protocol.leases import Outcome, Result
from firn.scan.lineage import ROW_ID, list_lineage_files
from optimizer.client import ServerApi, connect
from optimizer.errors import Refused, Unknown
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import BASE, ORDERS, Lake, altered, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_adoption import FaultyApi, adopted_files, lease_merge, run, status_of

pytestmark = ON_SQLITE

STEPS = 14


@pytest.fixture(params=["2", "3"])
def orders(lake: Lake, request: pytest.FixtureRequest) -> Iterator[KeyedLake]:
    lake.create_keyed(ORDERS, **{"format-version": request.param})
    lake.commit(altered(BASE, set_property("firn.read.max-wait", "60 s")))
    yield KeyedLake(lake)
    lake.services.images.stop()
    lake.services.image_writes.stop()


@pytest.fixture
def api(orders: KeyedLake) -> Iterator[ServerApi]:
    with listening(orders.lake.client.app) as url:
        yield connect(url)


def merge(orders: KeyedLake, api: ServerApi, mode: str = "auto") -> dict[str, Any]:
    lease = lease_merge(orders, api, mode)
    result = run(api, lease)
    assert result.outcome is Outcome.COMMITTED
    api.report(lease, result, [])
    return result.result


def summary_of(orders: KeyedLake) -> dict[str, str]:
    snapshot = current_snapshot(orders.lake.metadata(BASE))
    assert snapshot is not None
    summary: dict[str, str] = snapshot["summary"]
    return summary


def read_row_ids(orders: KeyedLake) -> dict[int, int]:
    """The row ids in base by key, as its files and manifests say them."""
    location = orders.lake.services.tables.load(LAKE, BASE).metadata_location
    assert location is not None
    table = StaticTable.from_metadata(location)
    ids: dict[int, int] = {}
    for file in list_lineage_files(table, may_have_deletes=True):
        rows = pq.read_table(file.file.file_path.removeprefix("file://"), partitioning=None)
        assert file.first_row_id is not None
        derived = [file.first_row_id + place for place in range(len(rows))]
        own = rows[ROW_ID].to_pylist() if ROW_ID in rows.column_names else [None] * len(rows)
        for key, stored, number in zip(rows["id"].to_pylist(), own, derived, strict=True):
            ids[key] = number if stored is None else stored
    return ids


def test_small_files_become_one_and_no_deletes_stay(orders: KeyedLake, api: ServerApi) -> None:
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    orders.upsert((2, "two"))
    assert merge(orders, api, "adopt")["rewritten_files"] == 0
    assert (summary_of(orders)["total-data-files"], summary_of(orders)["total-delete-files"]) == ("2", "1")
    orders.upsert((4, "d"))
    orders.delete(1)
    outcome = merge(orders, api)
    assert (outcome["mode"], outcome["rewritten_files"], outcome["pending_rows"]) == ("adopt", 2, 2)
    assert orders.read() == {2: "two", 3: "c", 4: "d"}
    summary = summary_of(orders)
    assert (summary["operation"], summary["total-records"], summary["total-data-files"]) == ("overwrite", "3", "1")
    assert (summary["total-delete-files"], summary["total-position-deletes"]) == ("0", "0")
    gained = outcome["gained"]
    assert (gained["files_before"], gained["files_after"]) == (4, 1)
    assert (gained["deletes_before"], gained["deletes_after"]) == (1, 0)


def test_a_table_may_lose_all_rows(orders: KeyedLake, api: ServerApi) -> None:
    orders.insert((1, "a"))
    orders.delete(1)
    merge(orders, api)
    assert (orders.read(), summary_of(orders)["total-data-files"]) == ({}, "0")
    orders.upsert((1, "again"))
    merge(orders, api)
    assert orders.read() == {1: "again"}


def test_rows_that_do_not_change_keep_their_ids(orders: KeyedLake, api: ServerApi) -> None:
    if orders.lake.metadata(BASE)["format-version"] < 3:
        pytest.skip("format v2 has no row ids")
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    before = read_row_ids(orders)
    orders.upsert((2, "two"), (4, "d"))
    merge(orders, api)
    after = read_row_ids(orders)
    assert (after[1], after[3]) == (before[1], before[3])
    assert len(set(after.values())) == 4
    assert after[2] not in before.values()
    orders.upsert((5, "e"))
    merge(orders, api)
    assert {key: read_row_ids(orders)[key] for key in after} == after


@pytest.mark.parametrize("fault", ["killed before", "base moves", "answer lost", "asked twice"])
def test_faults_of_the_commit(orders: KeyedLake, api: ServerApi, fault: str) -> None:
    orders.insert((1, "a"), (2, "b"))
    orders.upsert((1, "one"))
    lease = lease_merge(orders, api, "auto")
    faulty = FaultyApi(api.http, fault, orders)
    rows = {1: "one", 2: "b"}
    match fault:
        case "killed before":
            with pytest.raises(Killed):
                run(faulty, lease)
            assert [name.rpartition("-r-")[2] for name in adopted_files(orders.lake)] == ["0-0.parquet"]
        case "base moves":
            with pytest.raises(Refused, match="base has changed"):
                run(faulty, lease)
            assert adopted_files(orders.lake) == []
            rows |= {99: "from outside"}
        case "answer lost":
            with pytest.raises(Unknown):
                run(faulty, lease)
            api.report(lease, Result(outcome=Outcome.UNKNOWN, error="no answer"), [])
            assert orders.lake.keyed().pending_rows == 0
        case _:
            run(faulty, lease)
            assert orders.lake.keyed().pending_rows == 0
    assert orders.read() == rows


def test_files_with_bloom_filters_are_left_to_spark(orders: KeyedLake, api: ServerApi) -> None:
    orders.lake.commit(altered(BASE, set_property("write.parquet.bloom-filter-enabled.column.id", "true")))
    orders.insert((1, "a"))
    orders.upsert((1, "one"))
    assert merge(orders, api)["rewritten_files"] == 0
    assert orders.read() == {1: "one"}


@contextmanager
def killed_at(count: int) -> Iterator[None]:
    """The optimizer ends when it creates its file number `count`, from 0 on."""
    create, created = PyArrowFileIO.new_output, iter(range(1_000_000))

    def new_output(self: PyArrowFileIO, location: str) -> Any:
        if next(created) == count:
            raise Killed
        return create(self, location)

    with patch.object(PyArrowFileIO, "new_output", new_output):
        yield


@pytest.mark.parametrize("seed", range(6))
def test_any_history_with_kills(orders: KeyedLake, api: ServerApi, seed: int) -> None:
    random, rows = Random(seed), dict[int, str | None]()

    def change() -> None:
        keys = random.sample(range(12), random.randint(1, 5))
        if random.random() < 0.3:
            orders.delete(*keys)
            for key in keys:
                rows.pop(key, None)
        else:
            upserts = {key: f"{key}-{random.random()}" for key in keys}
            orders.upsert(*upserts.items())
            rows.update(upserts)

    def merge_or_die() -> None:
        if not orders.lake.keyed().pending_rows:
            return
        lease = lease_merge(orders, api, random.choice(["auto", "auto", "adopt"]))
        fault = random.choice(["", "", "killed", "killed before", "answer lost"])
        try:
            with killed_at(random.randint(0, 2) if fault == "killed" else -1):
                result = run(FaultyApi(api.http, fault, orders), lease)
        except (Killed, Unknown):
            api.report(lease, Result(outcome=Outcome.UNKNOWN, error="no answer"), [])
            orders.lake.services.jobs.reap()
            if status_of(orders, lease) is JobStatus.PENDING:
                orders.lake.services.jobs.cancel(leases.Lease.parse(lease.lease).job_id)
        else:
            api.report(lease, result, [])

    for _ in range(STEPS):
        random.choice([change, merge_or_die])()
        assert orders.read() == rows
    merge_all(orders, api)
    assert orders.read() == rows
    assert sum(1 for _ in read_live(orders)) == len(rows)


def merge_all(orders: KeyedLake, api: ServerApi) -> None:
    if orders.lake.keyed().pending_rows:
        merge(orders, api)


def read_live(orders: KeyedLake) -> Iterator[int]:
    """The keys of base alone."""
    location = orders.lake.services.tables.load(LAKE, BASE).metadata_location
    assert location is not None
    table = StaticTable.from_metadata(location)
    if table.current_snapshot() is not None:
        yield from table.scan().to_arrow()["id"].to_pylist()
