"""Merges by adoption, without Spark: a server in this process, and the optimizer's own code.

See docs/protocols.md, rule 5.6.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.iceberg.reading import current_snapshot
from catalog.jobs import leases
from catalog.jobs.job import JobKind, JobStatus
from firn.protocol.leases import Lease, Outcome, Result
from firn.protocol.tasks.merge import AdoptRequest, MergeMode, MergeTask, StoreSummary
from optimizer import adoption
from optimizer.client import ServerApi, connect
from optimizer.errors import Refused, Unknown
from optimizer.job_run import Attempt
from optimizer.jobs.merge import choose_mode_in_spark
from optimizer.lease_keeper import LeaseKeeper
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake

PATIENCE = {"firn.read.max-wait": "60 s"}
"""For readers, whatever else the machine does."""


@pytest.fixture
def api(orders: KeyedLake) -> Iterator[ServerApi]:
    with listening(orders.lake.client.app) as url:
        yield connect(url)


@dataclass(frozen=True)
class FaultyApi(ServerApi):
    """A way to the server on which one commit goes wrong."""

    fault: str = ""
    orders: KeyedLake | None = None

    def adopt(self, lease: Lease, request: AdoptRequest, *, seconds: float) -> StoreSummary:
        if self.fault == "killed before":
            raise Killed
        if self.fault == "base moves":
            assert self.orders is not None
            self.orders.insert((99, "from outside"))
        answer = super().adopt(lease, request, seconds=seconds)
        if self.fault == "answer lost":
            raise Unknown("no answer to the commit")
        if self.fault == "asked twice":
            assert super().adopt(lease, request, seconds=seconds) == answer
        return answer


def lease_merge(orders: KeyedLake, api: ServerApi, mode: str = "adopt") -> Lease:
    """The lease of a new merge job."""
    services = orders.lake.services
    services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {"mode": mode})
    optimizer = api.register(group="default", host="host", pid=1, version="0", launch=None, facts={}, slots=1)
    lease = api.take_lease(optimizer.id, ["merge"], wait_seconds=0)
    assert lease is not None
    return lease


def run(api: ServerApi, lease: Lease) -> Result:
    with LeaseKeeper(api, lease, stopping=threading.Event()) as keeper:
        result = adoption.run(Attempt(api, lease, keeper))
    assert result is not None
    return result


def merge(orders: KeyedLake, api: ServerApi) -> dict[str, Any]:
    """Merge what is pending; returns what the job tells."""
    lease = lease_merge(orders, api)
    result = run(api, lease)
    assert result.outcome is Outcome.COMMITTED
    api.report(lease, result, [])
    return result.result


def adopted_files(lake: Lake) -> list[str]:
    """The files of adoptions in base's own directory."""
    directory = Path(lake.metadata(BASE)["location"].removeprefix("file://")) / "data"
    return sorted(path.name for path in directory.glob("adopted-*"))


def status_of(orders: KeyedLake, lease: Lease) -> JobStatus:
    return orders.lake.job(leases.Lease.parse(lease.lease)).status


@pytest.mark.parametrize("version", ["2", "3"])
def test_base_holds_what_the_image_showed(lake: Lake, version: str) -> None:
    properties: dict[str, str] = {"format-version": version, **PATIENCE}
    lake.create_keyed(ORDERS, **properties)
    orders = KeyedLake(lake)
    with listening(lake.client.app) as url:
        api = connect(url)
        orders.upsert((1, "a"), (2, "b"), (3, "c"))
        assert merge(orders, api)["cleaned_files"] == 1
        orders.upsert((2, "two"), (4, "d"))
        orders.delete(1)
        outcome = merge(orders, api)
        assert (outcome["mode"], outcome["pending_rows"], outcome["cleaned_files"]) == ("adopt", 3, 2)
        orders.delete(3, 4)
        outcome = merge(orders, api)
    assert orders.read() == {2: "two"}
    assert lake.metadata(BASE)["format-version"] == int(version)
    assert (lake.keyed().pending_rows, lake.keyed().watermark) == (0, lake.keyed().change_sequence - 1)
    base = current_snapshot(lake.metadata(BASE))
    assert base is not None
    assert (base["summary"]["operation"], base["summary"]["total-records"]) == ("delete", "5")
    assert base["summary"]["total-position-deletes"] == "4"
    assert outcome["gained"]["files_after"] == int(base["summary"]["total-data-files"])
    lake.services.images.stop()


def test_a_vector_has_the_positions_that_base_had_hidden(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"format-version": "3", **PATIENCE})
    orders = KeyedLake(lake)
    orders.upsert((1, "a"), (2, "b"), (3, "c"))
    with listening(lake.client.app) as url:
        api = connect(url)
        for step in (None, 1, 2):
            if step is not None:
                orders.delete(step)
            merge(orders, api)
    summary = (current_snapshot(lake.metadata(BASE)) or {})["summary"]
    assert (summary["added-dvs"], summary["removed-dvs"], summary["total-delete-files"]) == ("1", "1", "1")
    assert (summary["total-position-deletes"], orders.read()) == ("2", {3: "c"})
    lake.services.images.stop()


def test_a_kill_between_files_and_commit_leaves_orphans_alone(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    with pytest.raises(Killed):
        run(FaultyApi(api.http, "killed before"), lease_merge(orders, api))
    (left,) = adopted_files(orders.lake)
    assert (orders.read(), orders.lake.keyed().pending_rows) == ({1: "a"}, 1)
    assert left.endswith("-p-0.parquet")


def test_after_a_lost_answer_the_record_decides(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    lease = lease_merge(orders, api)
    with pytest.raises(Unknown):
        run(FaultyApi(api.http, "answer lost"), lease)
    assert len(adopted_files(orders.lake)) == 1
    api.report(lease, Result(outcome=Outcome.UNKNOWN, error="no answer"), [])
    assert (orders.lake.keyed().pending_rows, orders.read()) == (0, {1: "a"})
    assert status_of(orders, lease) is JobStatus.SUCCEEDED


def test_a_repeated_request_gets_the_same_answer(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    assert run(FaultyApi(api.http, "asked twice"), lease_merge(orders, api)).outcome is Outcome.COMMITTED
    assert orders.read() == {1: "a"}
    assert len(orders.lake.metadata(BASE)["snapshots"]) == 1


def test_a_base_that_moved_refuses_the_layer_and_its_files_go(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    with pytest.raises(Refused, match="base has changed"):
        run(FaultyApi(api.http, "base moves", orders), lease_merge(orders, api))
    assert adopted_files(orders.lake) == []
    assert (orders.read(), orders.lake.keyed().pending_rows) == ({1: "a", 99: "from outside"}, 1)


def test_only_the_oldest_commits_are_merged_if_the_policy_says_so(orders: KeyedLake, api: ServerApi) -> None:
    orders.lake.commit(altered(BASE, set_property("firn.merge.max-job-rows", "2")))
    for number in range(3):
        orders.upsert((1, f"a{number}"), (10 + number, "b"))
    outcome = merge(orders, api)
    assert (outcome["pending_rows"], outcome["left_rows"], orders.lake.keyed().pending_rows) == (2, 4, 4)
    assert orders.read() == {1: "a2", 10: "b", 11: "b", 12: "b"}
    summary = (current_snapshot(orders.lake.metadata(BASE)) or {})["summary"]
    assert summary["total-records"] == "2"


def test_changes_without_effect_move_the_watermark(orders: KeyedLake, api: ServerApi) -> None:
    orders.delete(7)
    assert merge(orders, api)["cleaned_files"] == 1
    assert (orders.lake.keyed().pending_rows, orders.read()) == (0, {})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("write.format.default", "orc", "base's files are orc"), ("write.merge.mode", "copy-on-write", "copy-on-write")],
)
def test_what_adoption_cannot_do_is_refused_with_a_reason(
    orders: KeyedLake, api: ServerApi, name: str, value: str, reason: str
) -> None:
    orders.lake.commit(altered(BASE, set_property(name, value)))
    orders.upsert((1, "a"))
    services = orders.lake.services
    job = services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {"mode": "adopt"})
    optimizer = api.register(group="default", host="host", pid=1, version="0", launch=None, facts={}, slots=1)
    assert api.take_lease(optimizer.id, ["merge"], wait_seconds=0) is None
    with services.database.reading() as uow:
        ended = uow.jobs.get(job.id)
    assert ended.status is JobStatus.FAILED
    assert reason in (ended.error or "")


def test_auto_adopts_and_leaves_to_spark_what_it_cannot(orders: KeyedLake, api: ServerApi) -> None:
    orders.insert(*((key, "old") for key in range(10)))
    orders.upsert((1, "new"))
    lease = lease_merge(orders, api, "auto")
    assert (lease.task["mode"], lease.task["adoption"]["otherwise"]) == ("adopt", "rewrite")
    small = {**lease.task, "adoption": {**lease.task["adoption"], "most_key_bytes": 1}}
    limited = lease.model_copy(update={"task": small})
    with LeaseKeeper(api, limited, stopping=threading.Event()) as keeper:
        assert adoption.run(Attempt(api, limited, keeper)) is None
        assert "the key columns of base are" in keeper.take_lines()[-1]
    assert choose_mode_in_spark(MergeTask.model_validate(small)).mode is MergeMode.REWRITE
    assert run(api, lease).result["mode"] == "adopt"
    assert orders.read() == {key: "new" if key == 1 else "old" for key in range(10)}


def test_files_elsewhere_are_not_adopted(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    lease = lease_merge(orders, api)
    api.committing(lease)
    layer = {
        "packs": [{"location": "/elsewhere/p.parquet", "rows": 1, "like": "x"}],
        "hidden": [],
        "replaced_vectors": [],
        "keys": 1,
        "hidden_rows": 0,
    }
    task = lease.task
    request = AdoptRequest.model_validate(
        {
            "layer": layer,
            "base_snapshot_id": None,
            "change_snapshot_id": task["change"]["snapshot_id"],
            "watermark": 0,
            "through": task["through"],
        }
    )
    with pytest.raises(Refused, match="does not lie in"):
        api.adopt(lease, request, seconds=10)


def test_pending_changes_are_not_cleaned(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    lease = lease_merge(orders, api)
    api.committing(lease)
    files = [file.location for file in orders.lake.services.adoptions.files.live_files(orders.lake.metadata(CHANGE))]
    with pytest.raises(Invalid, match="no merged file"):
        orders.lake.services.adoptions.clean(leases.Lease.parse(lease.lease), files)
