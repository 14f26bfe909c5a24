"""Health, Layout, lists, predictions and dry runs agree on any layout of files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_snapshot
from catalog.jobs.job import JobKind
from catalog.names import TableName
from server.files.manifests import Content, Manifests, Status
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import Lake
from tests.server.service.dry_runs.day_tables import BY_DAY, FIELDS, MIB, TODAY, WHOLE, a_file
from tests.server.service.file_layouts import ASKED, LARGE, SMALL, TARGET, URL, settle

_ids = count(8_000_000)


@dataclass
class Listed:
    """A live data file as the test keeps it."""

    file: Any
    spec: int
    day: Any
    sequence: int
    deleted: int = 0


@dataclass
class Model:
    """What the test knows of main's head, by nothing but what it has written."""

    files: list[Listed] = field(default_factory=list)

    def groups(self, spec: int, *, partitioned: bool) -> dict[Any, list[Listed]]:
        files_by_group: dict[Any, list[Listed]] = defaultdict(list)
        for file in self.files:
            size = file.file.stats.size
            lost = file.deleted / file.file.stats.record_count >= 0.2 if file.deleted else False
            if lost or not SMALL <= size <= LARGE:
                files_by_group[file.day if file.spec == spec and partitioned else None].append(file)
        return files_by_group

    def packed(self, least: int, spec: int, *, partitioned: bool) -> list[list[Listed]]:
        chosen = []
        for group in self.groups(spec, partitioned=partitioned).values():
            size = sum(listed.file.stats.size for listed in group)
            lost = any(listed.deleted / listed.file.stats.record_count >= 0.2 for listed in group)
            if lost or size > LARGE or (len(group) > 1 and (len(group) >= least or size > TARGET)):
                chosen.append(group)
        return chosen


def _delete_entry(target: Listed, partition: Any, snapshot_id: int, rows: int) -> dict[str, Any]:
    """Of a file of position deletes for one data file."""
    return {
        "status": Status.ADDED,
        "snapshot_id": snapshot_id,
        "data_file": {
            "content": Content.POSITION_DELETES,
            "file_path": f"file:///data/d{snapshot_id}.parquet",
            "file_format": "PARQUET",
            "partition": partition,
            "record_count": rows,
            "file_size_in_bytes": 9,
            "referenced_data_file": target.file.stats.location,
        },
    }


def _snapshot_with_deletes(metadata: Json, head: Json, snapshot_id: int, manifest_list: str) -> Json:
    """One more file of deletes after the table's head."""
    totals = {key: value for key, value in head["summary"].items() if key.startswith("total-")}
    deletes = int(totals.get("total-delete-files", "0")) + 1
    summary = {**totals, "operation": "overwrite", "added-delete-files": "1", "total-delete-files": str(deletes)}
    return {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": head["snapshot-id"],
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": manifest_list,
        "schema-id": metadata["current-schema-id"],
        "summary": summary,
    }


class Agreement(RuleBasedStateMachine):
    """Commits of all kinds to one table; after each, everything that tells of its files says the same."""

    lake: Lake

    def __init__(self) -> None:
        super().__init__()
        self.spec, self.partitioned = 0, True
        self.states: dict[int, tuple[Model, int]] = {}
        self.model = Model()

    @initialize()
    def begin(self) -> None:
        self.name = TableName(("db",), f"t{next(_ids)}")
        definition = TableDefinition(name=self.name, schema=FIELDS, partition_spec=BY_DAY)
        self.lake.services.tables.create(LAKE, replace(definition, properties={"format-version": "2"}))

    def commit(self, *updates: Json, requirements: Sequence[Json] = ()) -> None:
        self.lake.commit(TableCommit(name=self.name, requirements=requirements, updates=updates))

    @rule(
        days=st.lists(
            st.tuples(st.sampled_from([None, TODAY, TODAY - 1, TODAY - 2]), st.sampled_from([1, 60, 100, 300])),
            max_size=8,
        ),
        removed=st.integers(0, 4),
        operation=st.sampled_from([None, "replace"]),
    )
    def write(self, days: list[tuple[Any, int]], removed: int, operation: str | None) -> None:
        """Append, overwrite, delete and replace."""
        gone = self.model.files[:removed]
        if not days and not gone:
            return
        metadata = self.lake.metadata(self.name)
        files = [a_file(day, size=size * MIB) for day, size in days]
        added = files if self.partitioned else [replace(file, partition=()) for file in files]
        snapshot_update = write_snapshot(
            Storage(),
            metadata,
            added,
            [listed.file.stats.location for listed in gone],
            snapshot_id=next(_ids),
            now_ms=metadata["last-updated-ms"] + 1,
        )
        if operation and gone:
            summary = {**snapshot_update.snapshot["summary"], "operation": operation}
            snapshot_update = replace(snapshot_update, snapshot={**snapshot_update.snapshot, "summary": summary})
        self.commit(*snapshot_update.updates(), requirements=snapshot_update.requirements())
        number = metadata["last-sequence-number"] + 1
        kept = [listed for listed in self.model.files if listed not in gone]
        new = [Listed(file, self.spec, day, number) for file, (day, _) in zip(added, days, strict=True)]
        self.model = Model([*kept, *new])
        self._remember(snapshot_update.snapshot["snapshot-id"])

    @rule(which=st.integers(0, 7), rows=st.integers(1, 9))
    def delete_rows(self, which: int, rows: int) -> None:
        """A file of position deletes that names its one data file."""
        if not self.model.files:
            return
        target = self.model.files[which % len(self.model.files)]
        metadata = self.lake.metadata(self.name)
        head = current_snapshot(metadata)
        assert head is not None
        manifests, snapshot_id = Manifests(Storage(), metadata), next(_ids)
        spec = manifests.spec(target.spec)
        place = f"{metadata['location']}/metadata/{snapshot_id}"
        entry = _delete_entry(target, spec.record(target.file.partition), snapshot_id, rows)
        manifest = manifests.write(f"{place}-m.avro", [entry], spec, Content.POSITION_DELETES, snapshot_id)
        number = metadata["last-sequence-number"] + 1
        manifest |= {"sequence_number": number, "min_sequence_number": number}
        lines = [manifest, *manifests.of_snapshot(head)]
        manifests.write_list(f"{place}.avro", lines, {"snapshot-id": str(snapshot_id)})
        snapshot = _snapshot_with_deletes(metadata, head, snapshot_id, f"{place}.avro")
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        self.commit({"action": "add-snapshot", "snapshot": snapshot}, ref)
        files = [
            replace(file, deleted=min(file.deleted + rows, 10)) if file is target else file for file in self.model.files
        ]
        self.model = Model(files)
        self._remember(snapshot_id)

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        if not self.states:
            return
        to = data.draw(st.sampled_from(sorted(self.states)))
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": to}
        self.commit(ref)
        self.model = self.states[to][0]

    @rule()
    def branch(self) -> None:
        """A branch is nobody's main."""
        head = current_snapshot(self.lake.metadata(self.name))
        if head is not None:
            name = f"b{next(_ids)}"
            self.commit(
                {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": head["snapshot-id"]}
            )

    @rule(partitioned=st.booleans())
    def evolve(self, *, partitioned: bool) -> None:
        spec = BY_DAY if partitioned else WHOLE
        self.commit(
            {"action": "add-spec", "spec": {"fields": spec["fields"]}}, {"action": "set-default-spec", "spec-id": -1}
        )
        self.spec, self.partitioned = self.lake.metadata(self.name)["default-spec-id"], partitioned

    def _remember(self, snapshot_id: int) -> None:
        self.states[snapshot_id] = (self.model, snapshot_id)

    @invariant()
    def all_agree(self) -> None:
        if not hasattr(self, "name"):
            return
        settle(self.lake)
        files, groups = self.model.files, self.model.packed(ASKED, self.spec, partitioned=self.partitioned)
        small = sum(file.file.stats.size < SMALL for file in files)
        chosen = sum(map(len, groups))
        layout = self.lake.client.get(f"{URL}/{self.name}/files").json()
        assert sum(partition["small_files"] for partition in layout) == small
        assert sum(partition["packable_files"] for partition in layout) == chosen
        table = self.lake.client.get(f"{URL}/{self.name}").json()
        dry = self.lake.client.post(f"{URL}/{self.name}/jobs?dry_run=true", json={"kind": "rewrite"}).json()
        assert {affected["items"]: affected["count"] for affected in dry["affected"]}["files to rewrite"] == chosen
        assert dry["is_empty"] == (chosen == 0)
        if not self.states:
            return
        assert (table["small_files"], table["packable_files"]) == (small, chosen)
        parts = self.lake.client.get(f"{URL}/{self.name}/health").json()["parts"]
        figure = next(health_part["detail"] for health_part in parts if health_part["part"] == "small-files")
        of_all = f"{len(files)} file" + ("" if len(files) == 1 else "s")
        assert figure.startswith(f"{small} of {of_all} small, ")
        self._check_prediction(dry)
        self._check_plan()

    def _check_prediction(self, dry: Any) -> None:
        """Whoever asks for a rewrite is promised what its dry run says."""
        with self.lake.services.database.reading() as uow:
            relation = uow.relations.find(LAKE, self.name)
            assert relation is not None
            active = uow.jobs.active_of(relation.id)
        if active is not None:
            self.lake.services.jobs.cancel(active.id)
        job = self.lake.client.post(f"{URL}/{self.name}/jobs", json={"kind": "rewrite"}).json()
        if dry["is_empty"]:
            assert (job["status"], job["outcome"]) == (
                ("succeeded", "nothing to do") if self.model.files else ("pending", None)
            )
        else:
            saved = job["predicted"]["files_before"] - job["predicted"]["files_after"]
            assert saved == max(dry["gain"]["files_before"] - dry["gain"]["files_after"], 0)
        if job["status"] == "pending":
            self.lake.client.post(f"/api/v1/jobs/{job['id']}/cancel")

    def _check_plan(self) -> None:
        """What the planner would plan is not empty by its own dry run."""
        decision = self.lake.services.planner.outlook(LAKE, self.name).decision
        params = getattr(decision, "params", None)
        if decision.kind is JobKind.REWRITE and params is not None:
            dry_run = self.lake.services.dry_runs.run(LAKE, self.name, JobKind.REWRITE, params)
            assert not dry_run.is_empty


def test_all_that_tells_of_small_files_agrees_on_any_layout(lake: Lake) -> None:
    machine = type("Machine", (Agreement,), {"lake": lake})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
