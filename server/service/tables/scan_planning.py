"""Scan planning by the server: it answers small scans at once, and splits large ones into tasks for any server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice

from catalog.errors import CommitUnknown, Invalid, NoSuchPlan, NoSuchPlanTask, NotFound, Unavailable
from catalog.iceberg.json import Json
from catalog.keyed.image import IMAGE_SNAPSHOT
from catalog.locations.location_rule import FileRule
from catalog.names import CatalogName, TableName
from catalog.ports.scan import FileTask, ScanFiles
from catalog.ports.store import Database
from catalog.scan.expression import measure_expression
from catalog.scan.plan import (
    ManifestSize,
    PlanId,
    ScanLimits,
    ScanPlan,
    Task,
    create_inline_plan_id,
    create_plan_id,
    cut_tasks,
    is_inline,
    parse_plan_id,
    parse_task,
    plan_whole_scan,
)
from catalog.scan.request import ScanRequest
from catalog.scan.scan import Scan
from catalog.tables.relation import RelationKind
from server.service.images.images import Images
from server.service.images.pair import build_image_rule
from server.service.locations.location_rule import build_file_rule
from server.service.tables.keyed_tables import KeyedTables, find_serving_table
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.tables import Tables

_KEPT = ("start-snapshot-id", "end-snapshot-id", "filter", "case-sensitive", "stats-fields")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The files of a small scan, or the tasks of a large one."""

    plan_id: str
    files: Sequence[FileTask] = ()
    tasks: Sequence[str] = ()


@dataclass(frozen=True)
class Scans:
    """Scan planning over plain and keyed tables, the stores of keyed ones, and pinned tables."""

    database: Database
    metadata: MetadataFiles
    tables: Tables
    keyed: KeyedTables
    images: Images
    files: ScanFiles
    limits: ScanLimits

    def plan(self, catalog: CatalogName, name: TableName, body: Json) -> Planned:
        """Plan a scan; NoSuchTable, or Invalid for a request that makes no sense on this table."""
        request = ScanRequest.parse(body)
        location, metadata = self._table(catalog, name)
        scan = Scan.of(metadata, request)
        if scan.incremental and IMAGE_SNAPSHOT in (metadata.get("properties") or {}):
            raise Invalid(
                f"{name} is a keyed table, and no snapshot of it only appends: an incremental scan would have no rows",
                hint="read the changes from its change store, or with `firn changes`",
            )
        limits = self.limits.for_filter(measure_expression(scan.filter))
        rule = self._rule(catalog, name, metadata)
        sizes = self.files.sizes(scan, rule)
        if limits.fits(sizes):
            files = list(_enough(self.files.tasks(scan, plan_whole_scan(sizes), rule), request.min_rows))
            return Planned(plan_id=create_inline_plan_id(), files=files)
        first = _first_rows(partial(self.files.tasks, rule=rule), scan, sizes, limits)
        if first is not None:
            return Planned(plan_id=create_inline_plan_id(), files=first)
        plan = self._keep(location, scan, _pinned(body, scan), tuple(cut_tasks(sizes, limits)))
        return Planned(plan_id=str(plan.id), tasks=plan.task_names())

    def result(self, catalog: CatalogName, name: TableName, plan_id: str) -> Planned | None:
        """What is planned under this id, None when it was cancelled; NoSuchPlan, also when it was answered whole."""
        plan = None if is_inline(plan_id) else self._find(catalog, name, parse_plan_id(plan_id))
        if plan is None:
            self._table(catalog, name)
            raise NoSuchPlan(f"The plan id does not exist: {plan_id}", hint="plan the scan again")
        return None if plan.cancelled else Planned(plan_id=plan_id, tasks=plan.task_names())

    def cancel(self, catalog: CatalogName, name: TableName, plan_id: str) -> None:
        """Give up a plan and all its tasks; again is fine, and so is one that was answered whole. NoSuchPlan."""
        if is_inline(plan_id):
            self._table(catalog, name)
            return
        plan = self._find(catalog, name, parse_plan_id(plan_id))
        if plan is None:
            raise NoSuchPlan(f"The plan id does not exist: {plan_id}")
        with self.database.writing() as uow:
            uow.plans.cancel(plan.id)

    def fetch(self, catalog: CatalogName, name: TableName, task: str) -> Sequence[FileTask]:
        """The files of one task, at any number of calls; raises NoSuchPlanTask once its plan is over."""
        plan_id, number = parse_task(task)
        plan = self._find(catalog, name, plan_id)
        if plan is None or plan.cancelled or number >= len(plan.tasks):
            raise NoSuchPlanTask(f"The plan task does not exist: {task}", hint="plan the scan again")
        try:
            metadata = self.metadata.load(plan.metadata_location).parsed
        except NotFound as error:
            raise NoSuchPlanTask(
                f"The plan task {task} is of metadata that is gone", hint="plan the scan again"
            ) from error
        scan = Scan.of(metadata, ScanRequest.parse(plan.request), schema_id=plan.schema_id)
        return list(self.files.tasks(scan, plan.tasks[number], self._rule(catalog, name, metadata)))

    def _rule(self, catalog: CatalogName, name: TableName, metadata: Json) -> FileRule:
        """The rule for the files that the table may name: a client may have committed files of another table."""
        with self.database.reading() as uow:
            serving = find_serving_table(uow, catalog, name)
            if serving.keyed is not None:
                pin = self.keyed.pin_relation(uow, serving.keyed)
                return build_image_rule(uow, self.database, self.metadata.files, pin)
            return build_file_rule(uow, self.database, self.metadata.files, serving.relation, metadata)

    def _table(self, catalog: CatalogName, name: TableName) -> tuple[str, Json]:
        """Where the table's metadata is, and the metadata; that of a pinned table says less than its file."""
        pinned = self.keyed.pinned_table(catalog, name)
        if pinned is not None:
            return pinned
        image = self.images.load_pinned(catalog, name)
        if image is not None:
            return image.metadata_location or "", self.metadata.load(image.metadata_location or "").parsed
        located = self.database.locate(catalog, name)
        is_keyed = located is not None and located.kind is RelationKind.KEYED
        location = (self.images if is_keyed else self.tables).load(catalog, name).metadata_location
        assert location is not None  # only staged tables have none, and these have no name yet
        return location, self.metadata.load(location).parsed

    def _find(self, catalog: CatalogName, name: TableName, plan_id: PlanId) -> ScanPlan | None:
        """Load a plan that belongs to this table and has not ended."""
        _, metadata = self._table(catalog, name)
        with self.database.reading() as uow:
            plan = uow.plans.find(plan_id)
            if plan is None or plan.expires_at <= uow.now() or plan.table_uuid != metadata["table-uuid"]:
                return None
        return plan

    def _keep(self, location: str, scan: Scan, request: Json, tasks: tuple[Task, ...]) -> ScanPlan:
        """Store a plan. Whether or not a lost answer was applied, nothing refers to it yet: asking again is safe."""
        try:
            with self.database.writing() as uow:
                plan = ScanPlan(
                    id=create_plan_id(),
                    table_uuid=scan.metadata["table-uuid"],
                    metadata_location=location,
                    request=request,
                    schema_id=scan.schema_id,
                    tasks=tasks,
                    expires_at=uow.now() + timedelta(seconds=self.limits.plan_seconds),
                )
                uow.plans.add(plan)
        except CommitUnknown as error:
            raise Unavailable("the plan could not be stored", hint="Plan the scan again.") from error
        return plan


def _first_rows(
    tasks: Callable[[Scan, Task], Iterator[FileTask]], scan: Scan, sizes: Sequence[ManifestSize], limits: ScanLimits
) -> Sequence[FileTask] | None:
    """Files with as many rows as the client asked for, if they are found within one answer."""
    if scan.min_rows is None:
        return None
    near = plan_whole_scan(sizes[: limits.manifests])
    first = list(islice(_enough(tasks(scan, near), scan.min_rows), limits.inline_files))
    return first if sum(task.certain_rows for task in first) >= scan.min_rows else None


def _enough(files: Iterator[FileTask], rows: int | None) -> Iterator[FileTask]:
    """The files up to the one with which so many rows are certain; all when no number is given."""
    certain = 0
    for file in files:
        if rows is not None and certain >= rows:
            return
        certain += file.certain_rows
        yield file


def _pinned(body: Json, scan: Scan) -> Json:
    """Pin the request to a snapshot, so that it means the same after later commits."""
    kept = {key: body[key] for key in _KEPT if key in body}
    return kept if scan.incremental else {**kept, "snapshot-id": scan.snapshots[0]["snapshot-id"]}
