"""Plans: answered whole or in tasks, by any server, pinned to their moment, and over when they are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.errors import Invalid, NoSuchPlan, NoSuchPlanTask, NoSuchTable
from catalog.iceberg.json import Json
from catalog.names import TableName
from catalog.ports.scan import FileTask
from server.background.cleanup import Cleanup
from server.service.tables.scan_planning import Planned, Scans
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, PLAIN, Lake, a_lake
from tests.server.scans.lake_table import LakeTable, a_row
from tests.server.scans.stored_plans import _files, stored

OTHER = TableName(("db",), "other")


def registered(lake: Lake, name: TableName = PLAIN, *, files: int = 6) -> LakeTable:
    """A table of so many files, each a commit and a manifest of its own."""
    table = LakeTable(lake.warehouse / f"{name.name}-{next(_files)}", [[]])
    for number in range(files):
        table.add(0, [a_row(number)])
        table.commit()
    lake.services.tables.register(LAKE, name, stored(table))
    return table


def in_tasks(lake: Lake, **limits: int) -> Scans:
    """The service of a server that hands out almost everything in tasks."""
    scans = lake.services.scans
    small = {"inline_files": 2, "task_files": 2, "manifests": 4, **limits}
    return replace(scans, limits=replace(scans.limits, **small))


def ids(files: Sequence[FileTask]) -> list[str]:
    return sorted(file.content["file-path"] for file in files)


def fetched(scans: Scans, planned: Planned, name: TableName = PLAIN) -> list[str]:
    return sorted(path for task in planned.tasks for path in ids(scans.fetch(LAKE, name, task)))


def test_a_small_scan_is_answered_whole_and_nothing_is_kept_for_it(lake: Lake) -> None:
    table, scans = registered(lake), lake.services.scans
    planned = scans.plan(LAKE, PLAIN, {})
    assert ids(planned.files) == sorted(data.path for data in table.data)
    assert planned.tasks == ()
    scans.cancel(LAKE, PLAIN, planned.plan_id)  # as Java's client does after each scan
    with pytest.raises(NoSuchPlan):
        scans.result(LAKE, PLAIN, planned.plan_id)
    assert Cleanup(lake.services.database).activate().plans == 0


def test_a_large_scan_is_handed_out_in_tasks_that_any_server_answers(lake: Lake, tmp_path: Path) -> None:
    table = registered(lake)
    planned = in_tasks(lake).plan(LAKE, PLAIN, {"filter": {"type": "gt", "term": "id", "value": 0}})
    assert len(planned.tasks) == 3
    assert planned.files == ()
    other = in_tasks(a_lake(lake.services.database, tmp_path / "another"))
    expected = sorted(data.path for data in table.data[1:])
    assert fetched(other, planned) == expected
    assert fetched(other, planned) == expected  # a lost answer is asked for again
    plan = other.result(LAKE, PLAIN, planned.plan_id)
    assert plan is not None
    assert plan.tasks == planned.tasks


def test_a_plan_stays_at_its_snapshot_while_the_table_goes_on(lake: Lake) -> None:
    table, scans = registered(lake), in_tasks(lake)
    before = sorted(data.path for data in table.data)
    planned = scans.plan(LAKE, PLAIN, {})
    table.drop(table.data[0])
    table.add(0, [a_row(100)])
    table.commit("overwrite")
    lake.services.tables.register(LAKE, PLAIN, stored(table), overwrite=True)
    assert fetched(scans, planned) == before
    assert fetched(scans, scans.plan(LAKE, PLAIN, {})) == sorted(data.path for data in table.data)


def test_a_cancelled_plan_gives_no_more_tasks(lake: Lake) -> None:
    registered(lake)
    scans = in_tasks(lake)
    planned = scans.plan(LAKE, PLAIN, {})
    scans.cancel(LAKE, PLAIN, planned.plan_id)
    scans.cancel(LAKE, PLAIN, planned.plan_id)
    assert scans.result(LAKE, PLAIN, planned.plan_id) is None
    with pytest.raises(NoSuchPlanTask):
        scans.fetch(LAKE, PLAIN, planned.tasks[0])


def test_an_expired_plan_is_over_and_forgotten(lake: Lake) -> None:
    registered(lake)
    scans = in_tasks(lake, plan_seconds=-1)
    planned = scans.plan(LAKE, PLAIN, {})
    with pytest.raises(NoSuchPlanTask):
        scans.fetch(LAKE, PLAIN, planned.tasks[0])
    with pytest.raises(NoSuchPlan):
        scans.cancel(LAKE, PLAIN, planned.plan_id)
    alive = in_tasks(lake).plan(LAKE, PLAIN, {})
    assert Cleanup(lake.services.database).activate().plans == 1
    assert in_tasks(lake).fetch(LAKE, PLAIN, alive.tasks[0])


def test_tasks_and_plans_of_another_table_are_refused(lake: Lake) -> None:
    registered(lake)
    registered(lake, OTHER)
    scans = in_tasks(lake)
    planned = scans.plan(LAKE, PLAIN, {})
    with pytest.raises(NoSuchPlanTask):
        scans.fetch(LAKE, OTHER, planned.tasks[0])
    with pytest.raises(NoSuchPlan):
        scans.result(LAKE, OTHER, planned.plan_id)
    with pytest.raises(NoSuchPlan):
        scans.cancel(LAKE, OTHER, planned.plan_id)
    assert scans.fetch(LAKE, PLAIN, planned.tasks[0])
    lake.services.tables.drop(LAKE, PLAIN)
    with pytest.raises(NoSuchTable):
        scans.fetch(LAKE, PLAIN, planned.tasks[0])
    registered(lake)  # the name again, another table
    with pytest.raises(NoSuchPlanTask):
        scans.fetch(LAKE, PLAIN, planned.tasks[0])


@pytest.mark.parametrize(
    "forged",
    ["", "x", "{plan}", "{plan}.", "{plan}.99", "{plan}.-1", "{plan}.0.0", "00000000-0000-0000-0000-000000000000.0"],
)
def test_forged_tasks_are_refused(lake: Lake, forged: str) -> None:
    registered(lake)
    scans = in_tasks(lake)
    planned = scans.plan(LAKE, PLAIN, {})
    with pytest.raises(NoSuchPlanTask):
        scans.fetch(LAKE, PLAIN, forged.format(plan=planned.plan_id))
    with pytest.raises(NoSuchPlan):
        scans.result(LAKE, PLAIN, "00000000-0000-0000-0000-000000000000")


def test_when_the_metadata_of_a_plan_is_gone_so_are_its_tasks(lake: Lake) -> None:
    table = registered(lake)
    scans = in_tasks(lake)
    planned = scans.plan(LAKE, PLAIN, {})
    first = lake.services.tables.load(LAKE, PLAIN).metadata_location
    lake.services.tables.register(LAKE, PLAIN, stored(table), overwrite=True)
    assert first is not None
    Path(first).unlink()
    later = in_tasks(a_lake(lake.services.database, lake.warehouse.parent / "later"))  # a server without a memory
    with pytest.raises(NoSuchPlanTask, match="is of metadata that is gone"):
        later.fetch(LAKE, PLAIN, planned.tasks[0])


def test_few_rows_asked_for_are_answered_at_once_from_the_first_files_that_have_them(lake: Lake) -> None:
    registered(lake)
    scans = in_tasks(lake)
    planned = scans.plan(LAKE, PLAIN, {"min-rows-requested": 2})
    assert (len(planned.files), planned.tasks) == (2, ())
    assert len(scans.plan(LAKE, PLAIN, {"min-rows-requested": 3}).tasks) == 3  # more than one answer holds
    maybe = {"min-rows-requested": 2, "filter": {"type": "not-eq", "term": "n", "value": 2}}
    assert len(scans.plan(LAKE, PLAIN, maybe).tasks) == 3  # rows that the filter may still drop do not count
    assert len(lake.services.scans.plan(LAKE, PLAIN, {"min-rows-requested": 3}).files) == 3


def test_rows_that_may_be_deleted_do_not_count_as_asked_for(lake: Lake) -> None:
    table = LakeTable(lake.warehouse / "t", [[]])
    for number in range(3):
        table.add(0, [a_row(number)])
    table.commit()
    table.delete_positions(table.data[0], scope="named")
    table.commit("delete")
    lake.services.tables.register(LAKE, PLAIN, stored(table))
    assert len(lake.services.scans.plan(LAKE, PLAIN, {"min-rows-requested": 1}).files) == 2


def test_an_empty_table_has_an_empty_plan(lake: Lake) -> None:
    lake.create()
    planned = lake.services.scans.plan(LAKE, PLAIN, {"filter": {"type": "eq", "term": "id", "value": 1}})
    assert (planned.files, planned.tasks) == ([], ())


def test_keyed_tables_their_stores_and_pinned_tables_can_be_planned(lake: Lake) -> None:
    lake.create_keyed()
    pin = lake.services.keyed.pin(LAKE, ORDERS)
    names = [ORDERS, BASE, CHANGE, *(TableName(BASE.namespace, name) for name in (pin.base_name, pin.change_name))]
    for name in names:
        assert lake.services.scans.plan(LAKE, name, {}).files == []


def test_snapshots_that_the_table_does_not_have_are_refused(lake: Lake) -> None:
    table, scans = registered(lake, files=3), lake.services.scans
    known = [snapshot["snapshot-id"] for snapshot in table.metadata["snapshots"]]
    assert len(scans.plan(LAKE, PLAIN, {"snapshot-id": known[0]}).files) == 1
    for body in (
        {"snapshot-id": 999_999},
        {"start-snapshot-id": known[0], "end-snapshot-id": 999_999},
        {"start-snapshot-id": known[2], "end-snapshot-id": known[0]},
        {"start-snapshot-id": 999_999, "end-snapshot-id": known[2]},
    ):
        with pytest.raises(Invalid):
            scans.plan(LAKE, PLAIN, body)


def test_a_large_incremental_scan_comes_in_tasks_too(lake: Lake) -> None:
    table, scans = registered(lake), in_tasks(lake)
    known = [snapshot["snapshot-id"] for snapshot in table.metadata["snapshots"]]
    planned = scans.plan(LAKE, PLAIN, {"start-snapshot-id": known[1], "end-snapshot-id": known[5]})
    assert len(planned.tasks) == 2
    assert fetched(scans, planned) == sorted(data.path for data in table.data[2:])


def test_the_schema_is_that_of_the_table_or_on_request_of_the_snapshot(lake: Lake) -> None:
    table = LakeTable(lake.warehouse / "t", [[]])
    table.add(0, [a_row(1)])
    table.commit()
    schema: Json = table.metadata["schemas"][0]
    renamed = [{**field, "name": "number" if field["name"] == "id" else field["name"]} for field in schema["fields"]]
    table.alter(
        {"action": "add-schema", "schema": {**schema, "fields": renamed}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    lake.services.tables.register(LAKE, PLAIN, stored(table))
    scans, snapshot = lake.services.scans, table.metadata["snapshots"][0]["snapshot-id"]
    plan_request = {"snapshot-id": snapshot, "filter": {"type": "eq", "term": "id", "value": 1}}
    assert len(scans.plan(LAKE, PLAIN, {**plan_request, "use-snapshot-schema": True}).files) == 1
    with pytest.raises(Invalid, match="Cannot find field 'id'"):
        scans.plan(LAKE, PLAIN, plan_request)


def test_a_table_of_five_thousand_files_is_planned_in_tasks_and_one_of_its_partitions_at_once(lake: Lake) -> None:
    table = LakeTable(lake.warehouse / "large", [[("id", "identity")]])
    for start in (0, 2_500):
        table.add(0, [a_row(number) for number in range(start, start + 2_500)])
        table.commit()
    lake.services.tables.register(LAKE, PLAIN, stored(table))
    scans = lake.services.scans
    planned = scans.plan(LAKE, PLAIN, {})
    assert len(planned.tasks) == 6
    assert fetched(scans, planned) == sorted(data.path for data in table.data)
    few = {"type": "in", "term": "id", "values": [7, 4_321]}
    assert len(fetched(scans, scans.plan(LAKE, PLAIN, {"filter": few}))) == 2
    filter_ = {"type": "and", "left": few, "right": {"type": "lt", "term": "id", "value": 2_000}}
    assert len(fetched(scans, scans.plan(LAKE, PLAIN, {"filter": filter_}))) == 1
