"""Images that are too large for the server: a job of an optimizer builds them (docs/protocols.md, rule 5.12)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Unavailable
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.keyed.image_build import BuildState
from firn.protocol.leases import Lease, Outcome
from firn.protocol.tasks.image import CompleteRequest
from optimizer.client import ServerApi, connect
from optimizer.errors import LeaseLost, Refused
from optimizer.images.pair import build_from_task
from optimizer.job_run import Attempt
from optimizer.jobs import image
from optimizer.lease_keeper import LeaseKeeper
from server.service.images.images import LAG, Images
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import BASE, ORDERS, altered, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake


@pytest.fixture
def api(orders: KeyedLake) -> Iterator[ServerApi]:
    with listening(orders.lake.client.app) as url:
        yield connect(url)


@dataclass(frozen=True)
class DyingApi(ServerApi):
    """A way to the server for an optimizer that dies, or while something else happens, before it completes an image."""

    before: Callable[[], object] = lambda: None

    def complete_image(self, lease: Lease, request: CompleteRequest, *, seconds: float) -> None:
        self.before()
        super().complete_image(lease, request, seconds=seconds)


def limited(orders: KeyedLake, **limits: Any) -> Images:
    """The service with other limits."""
    real = orders.lake.services.images
    return Images(real.tables, replace(real.builder, **limits), most_waiting=4)


def waiting_jobs(orders: KeyedLake) -> list[Job]:
    with orders.lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, ORDERS)
        assert relation is not None
        return [job for job in uow.jobs.last_of_each_kind(relation.id, limit=9) if job.status is JobStatus.PENDING]


def lease_job(api: ServerApi) -> Lease:
    optimizer = api.register(group="default", host="host", pid=1, version="0", launch=None, facts={}, slots=1)
    lease = api.take_lease(optimizer.id, ["image"], wait_seconds=0)
    assert lease is not None
    return lease


def run(api: ServerApi, lease: Lease) -> dict[str, Any]:
    with LeaseKeeper(api, lease, stopping=threading.Event()) as keeper:
        result = image.run(Attempt(api, lease, keeper))
    assert result.outcome is Outcome.NOTHING
    api.report(lease, result, [])
    return result.result


def raise_killed() -> None:
    raise Killed


@pytest.mark.parametrize("limit", ["most_pending_bytes", "most_key_bytes"])
def test_a_reader_of_a_large_table_gets_the_older_image_until_a_job_has_built_the_newest(
    orders: KeyedLake, api: ServerApi, limit: str
) -> None:
    orders.insert((1, "a"), (2, "b"))
    orders.upsert((1, "new"))
    orders.load()
    orders.insert((3, "c"))  # on another base no layer can be added
    orders.upsert((2, "newer"))
    small = limited(orders, **{limit: 1})
    assert LAG.encode() in small.load(LAKE, ORDERS).text
    small.load(LAKE, ORDERS)
    (job,) = waiting_jobs(orders)
    assert (job.kind, job.reason.startswith("readers wait: ")) == (JobKind.IMAGE, True)
    assert run(api, lease_job(api)) == {"keys": 2, "hidden_rows": 2}
    served = small.load(LAKE, ORDERS)
    assert LAG.encode() not in served.text
    assert orders.read(served) == {1: "new", 2: "newer", 3: "c"}
    assert waiting_jobs(orders) == []


def test_the_first_reader_of_a_large_table_is_told_that_an_optimizer_builds(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    with pytest.raises(Unavailable, match="more than the server merges") as refused:
        limited(orders, most_pending_bytes=1).load(LAKE, ORDERS)
    assert "An optimizer does it" in (refused.value.hint or "")
    assert [job.kind for job in waiting_jobs(orders)] == [JobKind.IMAGE]


def test_a_small_commit_after_a_large_image_is_a_layer_that_the_server_adds(orders: KeyedLake) -> None:
    orders.upsert(*((key, "a") for key in range(2000)))
    orders.load()
    orders.upsert((1, "b"))
    small = limited(orders, most_pending_bytes=orders.lake.keyed().pending_bytes // 2)
    assert orders.read(small.load(LAKE, ORDERS))[1] == "b"


def test_an_image_belongs_to_the_pair_with_which_the_job_began(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})

    def commit() -> None:
        orders.upsert((1, "b"))
        orders.lake.commit(altered(BASE, set_property("owner", "me")))

    moving = DyingApi(api.http, before=commit)
    run(moving, lease_job(api))
    (build,) = orders.builds()
    assert build.state is BuildState.COMPLETE
    assert orders.lake.services.images.builder.metadata.load(build.metadata_location).parsed["snapshots"]
    assert orders.read() == {1: "b"}


def test_a_job_for_an_image_that_is_there_does_nothing(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    orders.load()
    orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})
    assert run(api, lease_job(api)) == {"keys": 0}


def test_a_killed_job_leaves_files_that_retention_deletes(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})
    lease = lease_job(api)
    with pytest.raises(Killed):
        run(DyingApi(api.http, before=raise_killed), lease)
    (dead,) = orders.builds()
    assert dead.state is BuildState.BUILDING
    assert any(name.startswith(dead.name) for name in orders.files())
    assert run(api, lease)["keys"] == 1  # another attempt has names of its own
    with orders.lake.services.database.writing() as uow:
        uow.images.give_up(dead.id)
    orders.lake.services.images.retention.activate()
    assert not any(name.startswith(dead.name) for name in orders.files())
    assert orders.read() == {1: "a"}


def test_an_image_is_completed_once_however_often_it_is_asked(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})
    lease = lease_job(api)
    begun = api.begin_image(lease)
    assert begun.layer is not None
    layer = build_from_task(begun.layer, lambda _: None)
    assert begun.build is not None
    request = CompleteRequest(build=begun.build, watermark=begun.layer.watermark, layer=layer)
    wrong = request.model_copy(update={"watermark": 99})
    with pytest.raises(Refused, match="another image"):
        api.complete_image(lease, wrong, seconds=10)
    moved = layer.packs[0].model_copy(update={"location": "/elsewhere/x.parquet"})
    elsewhere = request.model_copy(update={"layer": layer.model_copy(update={"packs": [moved]})})
    with pytest.raises(Refused, match="no file of the build"):
        api.complete_image(lease, elsewhere, seconds=10)
    api.complete_image(lease, request, seconds=10)
    with orders.lake.services.database.writing() as uow:  # as if the server had died before it noted the end down
        (build,) = uow.images.of_table(orders.builds()[0].relation_id)
        uow.images.remove(build.id)
        uow.images.add(replace(build, state=BuildState.BUILDING))
    api.complete_image(lease, request, seconds=10)
    api.complete_image(lease, request, seconds=10)
    (build,) = orders.builds()
    assert build.state is BuildState.COMPLETE
    assert orders.read() == {1: "a"}


def test_a_job_whose_lease_has_ended_completes_nothing(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    job = orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})
    lease = lease_job(api)
    with pytest.raises(LeaseLost):
        run(DyingApi(api.http, before=lambda: orders.lake.services.jobs.cancel(job.id)), lease)
    assert [build.state for build in orders.builds()] == [BuildState.BUILDING]  # retention removes it with its files


def test_an_image_whose_job_lost_the_answer_and_its_lease_keeps_its_files(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    job = orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})

    class LosingApi(ServerApi):
        def complete_image(self, lease: Lease, request: CompleteRequest, *, seconds: float) -> None:
            super().complete_image(lease, request, seconds=seconds)
            orders.lake.services.jobs.cancel(job.id)
            super().complete_image(lease, request, seconds=seconds)

    lease = lease_job(api)
    with pytest.raises(LeaseLost):
        run(LosingApi(api.http), lease)
    (build,) = orders.builds()
    assert build.state is BuildState.COMPLETE
    assert orders.read() == {1: "a"}


def test_a_job_deletes_the_files_of_a_build_that_the_server_refuses(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    orders.lake.services.planner.run_now(LAKE, ORDERS, JobKind.IMAGE, {})

    def forget() -> None:
        with orders.lake.services.database.writing() as uow:
            uow.images.remove(orders.builds()[0].id)

    lease = lease_job(api)
    with pytest.raises(Refused, match="took too long"):
        run(DyingApi(api.http, before=forget), lease)
    assert orders.files() == set()


def test_a_failed_job_is_not_asked_for_at_once(orders: KeyedLake, api: ServerApi) -> None:
    orders.upsert((1, "a"))
    small = limited(orders, most_pending_bytes=1)
    with pytest.raises(Unavailable):
        small.load(LAKE, ORDERS)
    for path in Path(orders.lake.warehouse).rglob("change/data/*.parquet"):
        path.unlink()
    lease = lease_job(api)
    with LeaseKeeper(api, lease, stopping=threading.Event()) as keeper, pytest.raises(FileNotFoundError):
        image.run(Attempt(api, lease, keeper))
    orders.lake.services.jobs.cancel(waiting_or_running(orders).id)
    with pytest.raises(Unavailable):
        small.load(LAKE, ORDERS)
    assert waiting_jobs(orders) == []


def waiting_or_running(orders: KeyedLake) -> Job:
    with orders.lake.services.database.reading() as uow:
        job = uow.jobs.active_of(orders.builds()[0].relation_id)
    assert job is not None
    return job
