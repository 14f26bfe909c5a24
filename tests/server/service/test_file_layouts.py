"""One number has one source: Health, Layout, lists, predictions and dry runs say the same of any table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_snapshot
from catalog.jobs.job import JobKind, JobOutcome
from catalog.names import TableName
from firn.protocol.tasks.files import RewriteTask
from server.files.manifests import Content, Manifests, Status
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake
from tests.server.service.dry_runs.day_tables import BY_DAY, FIELDS, MIB, TODAY, WHOLE, a_file, make, write

_ids = count(7_000_000)
TARGET, SMALL, LARGE, PLANNED, ASKED = 128 * MIB, 96 * MIB, int(1.8 * 128 * MIB), 5, 2
URL = "/api/v1/catalogs/lake/tables"


def settle(lake: Lake) -> None:
    """What the background does within seconds of a commit."""
    lake.services.planner_loop.run_once()
    lake.services.file_layouts.run_once()
    lake.services.planner_loop.run_once()


def health(lake: Lake) -> str:
    parts = lake.client.get(f"{URL}/{PLAIN}/health").json()["parts"]
    return str(next(one["detail"] for one in parts if one["part"] == "small-files"))


def reason(lake: Lake) -> str:
    return str(lake.client.get(f"{URL}/{PLAIN}/explain").json()["reason"])


def rewrite(lake: Lake) -> Any:
    return lake.client.post(f"{URL}/{PLAIN}/jobs", json={"kind": "rewrite"}).json()


# --- what was found --------------------------------------------------------------------------------------------------


def test_365_partitions_of_one_file_are_promised_nothing_and_planned_nothing(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY - day) for day in range(365)])
    settle(lake)
    assert health(lake) == "365 of 365 files small, 0 can be packed (a rewrite is due at 20)"
    assert "of 365 small files 0 can be packed" in reason(lake)
    listed = lake.client.get(URL).json()["items"][0]
    assert (listed["small_files"], listed["packable_files"]) == (365, 0)
    with lake.services.database.reading() as uow:
        assert uow.jobs.last_of_each_kind(listed_id(lake), limit=9) == []
    job = rewrite(lake)
    assert (job["status"], job["outcome"], job["owner"]) == ("succeeded", "nothing to do", None)


def listed_id(lake: Lake) -> Any:
    with lake.services.database.reading() as uow:
        found = uow.relations.find(LAKE, PLAIN)
    assert found is not None
    return found.id


def test_a_replace_that_removes_files_leaves_the_others_small(lake: Lake) -> None:
    """A publish replaces a few files: the count of all others began anew at nothing."""
    make(lake)
    some, others = [a_file(TODAY) for _ in range(3)], [a_file(TODAY) for _ in range(15)]
    write(lake, [*some, *others])
    settle(lake)
    replaced(lake, [a_file(TODAY)], some)
    settle(lake)
    assert health(lake).startswith("16 of 16 files small, 16 can be packed")


def replaced(lake: Lake, added: Sequence[Any], removed: Sequence[Any]) -> None:
    metadata = lake.metadata(PLAIN)
    gone = [one.stats.location for one in removed]
    made = write_snapshot(
        Storage(), metadata, added, gone, snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
    )
    snapshot = {**made.snapshot, "summary": {**made.snapshot["summary"], "operation": "replace"}}
    lake.commit(
        TableCommit(name=PLAIN, requirements=made.requirements(), updates=replace(made, snapshot=snapshot).updates())
    )


def test_18_files_in_6_partitions_get_the_rewrite_that_packs_them(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY - day) for day in range(6) for _ in range(3)])
    settle(lake)
    with lake.services.database.reading() as uow:
        (job,) = uow.jobs.last_of_each_kind(listed_id(lake), limit=9)
    assert (job.kind, job.predicted["files_before"], job.predicted["files_after"]) == (JobKind.REWRITE, 18, 6)
    task = lake.services.tasks.build(job)
    assert isinstance(task, RewriteTask)
    assert task.min_files == 2  # or it would find nothing to do


def test_a_count_that_a_commit_has_overtaken_plans_nothing_and_is_made_again(lake: Lake) -> None:
    make(lake)
    files = [a_file(TODAY) for _ in range(30)]
    write(lake, files)
    lake.services.planner_loop.run_once()
    held = lake.services.file_layouts
    subject = held._load_subject(listed_id(lake))
    assert subject is not None
    layout = held._count_files(subject)
    write(lake, [], files[5:])  # meanwhile somebody else deletes
    with lake.services.database.writing() as uow:
        uow.layouts.put(listed_id(lake), layout, uow.now())
    assert lake.services.planner_loop.run_once().planned == 0
    assert "its files are being counted" in reason(lake)
    settle(lake)
    assert health(lake).startswith("5 of 5 files small, 5 can be packed")


def test_a_hot_table_is_planned_for_by_what_was_counted_before_its_last_appends(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY) for _ in range(30)])
    lake.services.planner_loop.run_once()
    lake.services.file_layouts.run_once()
    write(lake, [a_file(TODAY)])
    assert lake.services.planner_loop.run_once().planned == 1


def test_a_server_that_dies_before_it_has_stored_a_count_leaves_it_to_be_made(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY)])
    lake.services.planner_loop.run_once()
    subject = lake.services.file_layouts._load_subject(listed_id(lake))
    assert subject is not None
    lake.services.file_layouts._count_files(subject)  # and is killed
    assert lake.elsewhere.services.file_layouts.run_once().counted == 1
    assert health(lake).startswith("1 of 1 file small")


def test_manifests_that_cannot_be_read_stop_no_other_tables_count(lake: Lake) -> None:
    other = TableName(("db",), "broken")
    lake.create(other)
    lake.append(other)  # whose manifest list nobody has written
    make(lake)
    write(lake, [a_file(TODAY)])
    lake.services.planner_loop.run_once()
    done = lake.services.file_layouts.run_once()
    assert (done.counted, done.unreadable) == (1, 1)
    assert lake.services.file_layouts.run_once() == type(done)()
    assert lake.client.get(f"{URL}/{other}").json()["small_files"] is None


def test_what_counts_as_small_follows_the_policy_at_once(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY, size=50 * MIB) for _ in range(6)])
    settle(lake)
    assert health(lake).startswith("6 of 6 files small")
    lake.services.policies.replace(LAKE, ("db",), {"firn.rewrite.small-file-size": "10 MiB"})
    settle(lake)
    assert health(lake).startswith("0 of 6 files small, 0 can be packed")


def test_a_dropped_table_has_no_count_any_more_and_none_is_made(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY)])
    settle(lake)
    write(lake, [a_file(TODAY)])
    lake.services.planner_loop.run_once()
    lake.services.drop(LAKE, PLAIN)
    assert lake.services.file_layouts.run_once().counted == 0
    with lake.services.database.reading() as uow:
        assert uow.layouts.list_requested(uow.now(), limit=9) == []


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (JobKind.REWRITE, JobOutcome.NOTHING_TO_DO),
        (JobKind.MERGE, JobOutcome.NOTHING_TO_DO),
        (JobKind.KEYS, JobOutcome.DONE),
    ],
)
def test_a_job_that_has_changed_nothing_says_that_there_was_nothing_to_do(
    lake: Lake, kind: JobKind, outcome: JobOutcome
) -> None:
    lake.create_keyed()
    lease = lake.lease(kind, committing=False)
    assert lake.client.get(f"/api/v1/jobs/{lease.job_id}").json()["outcome"] is None
    lake.services.jobs.report(lease, None, error=None, result={})
    assert lake.client.get(f"/api/v1/jobs/{lease.job_id}").json()["outcome"] == outcome


# --- any table -------------------------------------------------------------------------------------------------------


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
        found: dict[Any, list[Listed]] = defaultdict(list)
        for one in self.files:
            size = one.file.stats.size
            lost = one.deleted / one.file.stats.record_count >= 0.2 if one.deleted else False
            if lost or not SMALL <= size <= LARGE:
                found[one.day if one.spec == spec and partitioned else None].append(one)
        return found

    def packed(self, least: int, spec: int, *, partitioned: bool) -> list[list[Listed]]:
        chosen = []
        for group in self.groups(spec, partitioned=partitioned).values():
            size = sum(one.file.stats.size for one in group)
            lost = any(one.deleted / one.file.stats.record_count >= 0.2 for one in group)
            if lost or size > LARGE or (len(group) > 1 and (len(group) >= least or size > TARGET)):
                chosen.append(group)
        return chosen


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
        added = files if self.partitioned else [replace(one, partition=()) for one in files]
        made = write_snapshot(
            Storage(),
            metadata,
            added,
            [one.file.stats.location for one in gone],
            snapshot_id=next(_ids),
            now_ms=metadata["last-updated-ms"] + 1,
        )
        if operation and gone:
            summary = {**made.snapshot["summary"], "operation": operation}
            made = replace(made, snapshot={**made.snapshot, "summary": summary})
        self.commit(*made.updates(), requirements=made.requirements())
        number = metadata["last-sequence-number"] + 1
        kept = [one for one in self.model.files if one not in gone]
        new = [Listed(one, self.spec, day, number) for one, (day, _) in zip(added, days, strict=True)]
        self.model = Model([*kept, *new])
        self._remember(made.snapshot["snapshot-id"])

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
        entry: dict[str, Any] = {
            "status": Status.ADDED,
            "snapshot_id": snapshot_id,
            "data_file": {
                "content": Content.POSITION_DELETES,
                "file_path": f"file:///data/d{snapshot_id}.parquet",
                "file_format": "PARQUET",
                "partition": spec.record(target.file.partition),
                "record_count": rows,
                "file_size_in_bytes": 9,
                "referenced_data_file": target.file.stats.location,
            },
        }
        made = manifests.write(f"{place}-m.avro", [entry], spec, Content.POSITION_DELETES, snapshot_id)
        number = metadata["last-sequence-number"] + 1
        made |= {"sequence_number": number, "min_sequence_number": number}
        lines = [made, *manifests.of_snapshot(head)]
        manifests.write_list(f"{place}.avro", lines, {"snapshot-id": str(snapshot_id)})
        totals = {key: value for key, value in head["summary"].items() if key.startswith("total-")}
        deletes = int(totals.get("total-delete-files", "0")) + 1
        summary = {**totals, "operation": "overwrite", "added-delete-files": "1", "total-delete-files": str(deletes)}
        snapshot = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": head["snapshot-id"],
            "sequence-number": number,
            "timestamp-ms": metadata["last-updated-ms"] + 1,
            "manifest-list": f"{place}.avro",
            "schema-id": metadata["current-schema-id"],
            "summary": summary,
        }
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        self.commit({"action": "add-snapshot", "snapshot": snapshot}, ref)
        files = [
            replace(one, deleted=min(one.deleted + rows, 10)) if one is target else one for one in self.model.files
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
        small = sum(one.file.stats.size < SMALL for one in files)
        chosen = sum(map(len, groups))
        layout = self.lake.client.get(f"{URL}/{self.name}/files").json()
        assert sum(one["small_files"] for one in layout) == small
        assert sum(one["packable_files"] for one in layout) == chosen
        table = self.lake.client.get(f"{URL}/{self.name}").json()
        dry = self.lake.client.post(f"{URL}/{self.name}/jobs?dry_run=true", json={"kind": "rewrite"}).json()
        assert {one["items"]: one["count"] for one in dry["affected"]}["files to rewrite"] == chosen
        assert dry["is_empty"] == (chosen == 0)
        if not self.states:
            return
        assert (table["small_files"], table["packable_files"]) == (small, chosen)
        parts = self.lake.client.get(f"{URL}/{self.name}/health").json()["parts"]
        figure = next(one["detail"] for one in parts if one["part"] == "small-files")
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
            found = self.lake.services.dry_runs.run(LAKE, self.name, JobKind.REWRITE, params)
            assert not found.is_empty


def test_all_that_tells_of_small_files_agrees_on_any_layout(lake: Lake) -> None:
    machine = type("Machine", (Agreement,), {"lake": lake})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
