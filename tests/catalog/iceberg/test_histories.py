"""What holds after any history of commits, applied and refused, whatever they were."""

from __future__ import annotations

import copy
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from pyiceberg.table.metadata import TableMetadataUtil

from catalog.iceberg.table import current_snapshot_id, keep_refs_only, pin_snapshot, ref_snapshot_id
from tests.catalog.iceberg.build import ORDERS, a_table, applied, with_history
from tests.catalog.iceberg.random_histories import STEPS, after, histories, history
from tests.catalog.iceberg.random_requests import request

COUNTERS = ("last-sequence-number", "last-column-id", "last-partition-id", "next-row-id", "format-version")


@given(histories)
@settings(max_examples=60, deadline=None)
def test_no_counter_ever_goes_down(drawn: tuple[Random, int]) -> None:
    states = history(*drawn)
    for before, later in pairwise(states):
        for counter in COUNTERS:
            assert later.get(counter, 0) >= before.get(counter, 0)


@given(histories)
@settings(max_examples=60, deadline=None)
def test_a_commit_never_writes_its_input(drawn: tuple[Random, int]) -> None:
    rng, version = drawn
    table = with_history(a_table(version), 2)
    for step in range(STEPS):
        updates = request(rng, table)
        before = copy.deepcopy((table, updates))
        later = after(table, updates, step)
        assert (table, updates) == before
        table = later


@given(histories)
@settings(max_examples=60, deadline=None)
def test_fields_unknown_to_us_survive_everything(drawn: tuple[Random, int]) -> None:
    rng, version = drawn
    table = with_history(a_table(version), 2)
    table = {**table, "x-ours": {"deep": [1]}, "snapshots": [{**entry, "x-s": 1} for entry in table["snapshots"]]}
    marked = {entry["snapshot-id"] for entry in table["snapshots"]}
    for step in range(STEPS):
        table = after(table, request(rng, table), step)
        marked &= {entry["snapshot-id"] for entry in table["snapshots"]}
    assert table["x-ours"] == {"deep": [1]}
    assert {entry["snapshot-id"] for entry in table["snapshots"] if "x-s" in entry} >= marked


@given(histories)
@settings(max_examples=60, deadline=None)
def test_every_state_is_consistent(drawn: tuple[Random, int]) -> None:
    for table in history(*drawn):
        known = [saved["snapshot-id"] for saved in table["snapshots"]]
        assert len(known) == len(set(known))
        assert {ref["snapshot-id"] for ref in table["refs"].values()} <= set(known)
        assert current_snapshot_id(table) == ref_snapshot_id(table, "main")
        assert table["current-schema-id"] in [schema["schema-id"] for schema in table["schemas"]]
        assert table["default-spec-id"] in [partition_spec["spec-id"] for partition_spec in table["partition-specs"]]
        assert table["default-sort-order-id"] in [sort_order["order-id"] for sort_order in table["sort-orders"]]
        log = [entry["timestamp-ms"] for entry in table["snapshot-log"]]
        assert all(later - before >= -60_000 for before, later in pairwise(log))
        assert set(ORDERS["fields"][0]) <= set(table["schemas"][0]["fields"][0])


@given(histories)
@settings(max_examples=20, deadline=None)
def test_pyiceberg_reads_every_state(drawn: tuple[Random, int]) -> None:
    for table in history(*drawn):
        parsed = TableMetadataUtil.parse_obj(table)
        assert parsed.format_version == table["format-version"]
        current = parsed.current_snapshot()
        assert (current.snapshot_id if current else None) == current_snapshot_id(table)
        assert parsed.schema().schema_id == table["current-schema-id"]


@given(histories)
@settings(max_examples=10, deadline=None)
def test_pyiceberg_reads_every_pinned_and_cut_state(drawn: tuple[Random, int]) -> None:
    for table in history(*drawn)[::5]:
        TableMetadataUtil.parse_obj(keep_refs_only(table))
        for entry in [*table["snapshots"], None]:
            snapshot_id = entry["snapshot-id"] if entry else None
            parsed = TableMetadataUtil.parse_obj(pin_snapshot(table, snapshot_id, schema_id=table["current-schema-id"]))
            current = parsed.current_snapshot()
            assert (current.snapshot_id if current else None) == snapshot_id


def test_most_random_requests_are_applied() -> None:
    rng, changed = Random(7), 0
    for version in (1, 2, 3):
        states = history(rng, version)
        changed += sum(later is not before for before, later in pairwise(states))
    assert changed > STEPS


def test_unchanged_parts_are_shared_with_the_input() -> None:
    table = with_history(a_table(3), 3)
    later = applied(table, {"action": "set-properties", "updates": {"a": "1"}})
    assert all(later[key] is table[key] for key in ("snapshots", "schemas", "snapshot-log", "refs"))
