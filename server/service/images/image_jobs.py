"""Jobs that build images too large for the server (docs/protocols.md, rule 5.12).

The optimizer writes the layer's data files. The server notes the build down before the first one, and writes manifests
and metadata after the last one, as for its own builds. So a job that dies leaves what a dead builder leaves.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

from catalog.errors import Conflict, Invalid, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import snapshot_by_id
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.image import ImageKey
from catalog.keyed.image_build import BuildState, ImageBuild
from catalog.maintenance import predict_job
from catalog.planning import Due
from catalog.planning.backoff import find_backoff
from catalog.ports.store import UnitOfWork
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.tasks.image import BegunImage, CompleteRequest, Layer
from server.service.images.builder import ImageBuilder
from server.service.images.pair import Pair, make_layer_task, read_pair
from server.service.jobs.admission import check_not_blocked
from server.service.jobs.job_queue import enqueue, make_job
from server.service.planning.planner import load_facts, load_past_jobs
from server.service.tables.keyed_tables import KeyedTables


@dataclass(frozen=True)
class ImageJobs:
    """Any number of threads and servers may use it at once."""

    tables: KeyedTables
    builder: ImageBuilder

    def request(self, pair: Pair, reason: str) -> None:
        """Plan a job for a reader; not while the table has another job, or after jobs that failed."""
        with self.builder.database.reading() as uow:
            if uow.jobs.active_of(pair.relation.id) is not None:
                return
        with suppress(Conflict), self.builder.database.writing() as uow:
            check_not_blocked(uow, pair.relation.id, JobKind.IMAGE)
            facts, past, now = load_facts(uow, pair.relation), load_past_jobs(uow, pair.relation.id), uow.now()
            due = Due(kind=JobKind.IMAGE, reason=reason, state=pair.key.etag)
            if find_backoff(due, past, now, for_gain=False) is None:
                due = replace(due, predicted=predict_job(JobKind.IMAGE, facts, past))
                enqueue(uow, make_job(pair.relation, due, facts, now), now)

    def begin(self, lease: Lease) -> BegunImage:
        """Note down a build of the newest pair; nothing to do where the image is there. LeaseLost."""
        with self.builder.database.reading() as uow:
            job = _check_job(uow, lease)
            pair = read_pair(uow, self.tables, job.catalog, uow.relations.get(job.relation_id).name)
            is_there = uow.images.find(pair.relation.id, pair.key.etag) is not None
        if is_there or not pair.needs_builder:
            return BegunImage()
        build = self.builder.begin(pair, None)
        task = make_layer_task(pair, build.name, None)
        return BegunImage(build=build.id, layer=self.builder.limit_task(task))

    def complete(self, lease: Lease, request: CompleteRequest) -> None:
        """Write manifests and metadata of the build. It may be asked again.

        LeaseLost; Conflict when the build is being removed; NotFound when a snapshot of its pair is gone.
        """
        with self.builder.database.reading() as uow:
            job = _check_job(uow, lease)
            build = _find_build(uow, job, request.build)
            pair = read_pair(uow, self.tables, job.catalog, uow.relations.get(job.relation_id).name)
        if build.state is BuildState.COMPLETE:
            return
        _check_files(build, request.layer)
        self.builder.finish(self._restore(pair, build, request.watermark), build, request.layer, None)

    def _restore(self, now: Pair, build: ImageBuild, watermark: int) -> Pair:
        """The pair that the build belongs to, whatever came since. Its row keeps both snapshots from expiry."""
        base = self.builder.metadata.load(build.base_metadata).parsed
        change = _at(now.pin.change, build.change_snapshot_id)
        key = ImageKey(
            table_uuid=now.relation.id,
            base_snapshot_id=build.base_snapshot_id,
            change_snapshot_id=build.change_snapshot_id,
            watermark=watermark,
            schema_id=base["current-schema-id"],
            format_version=build.format_version,
            base_metadata=build.base_metadata,
            hides=build.hides,
        )
        if key.etag != build.digest:
            raise Invalid("the request is about another image than its build")
        return replace(now, pin=replace(now.pin, base=base, change=change), key=key)


def _check_job(uow: UnitOfWork, lease: Lease) -> Job:
    job = check_lease(uow.jobs.get(lease.job_id), lease)
    if job.kind is not JobKind.IMAGE:
        raise Invalid(f"job {job.id} builds no image")
    return job


def _find_build(uow: UnitOfWork, job: Job, build_id: UUID) -> ImageBuild:
    build = next((build for build in uow.images.of_table(job.relation_id) if build.id == build_id), None)
    if build is None or build.state is BuildState.REMOVING:
        raise Conflict("the build took too long: its files are being deleted", hint="the next reader asks for another")
    return build


def _at(change: Json, snapshot_id: int | None) -> Json:
    """The change store with this snapshot as its head."""
    if snapshot_id is not None and snapshot_by_id(change, snapshot_id) is None:
        raise NotFound(f"snapshot {snapshot_id} of the change store has expired")
    return {**change, "current-snapshot-id": -1 if snapshot_id is None else snapshot_id}


def _check_files(build: ImageBuild, layer: Layer) -> None:
    """Invalid unless all files of the layer have names of this build."""
    directory = normalize_location(build.directory)
    for location in (*(pack.location for pack in layer.packs), *(hidden.location for hidden in layer.hidden)):
        folder, _, name = location.rpartition("/")
        if not lies_in(normalize_location(location), directory) or not name.startswith(f"{build.name}-"):
            raise Invalid(f"{location} is no file of the build {build.name} in {folder}")
