"""Updates of snapshots, refs, statistics and encryption keys, and the logs that follow them."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_snapshot, ref_snapshot_id, snapshot_by_id
from tests.catalog.iceberg.build import (
    CREATED_MS,
    LOCATION,
    NOW_MS,
    a_table,
    add,
    applied,
    move,
    remove,
    snapshot,
    with_history,
)


def log_of(table: Json) -> list[int]:
    return [entry["snapshot-id"] for entry in table["snapshot-log"]]


def ids_of(table: Json) -> list[int]:
    return [known["snapshot-id"] for known in table["snapshots"]]


def drop_ref(name: str) -> Json:
    return {"action": "remove-snapshot-ref", "ref-name": name}


# --- adding ----------------------------------------------------------------------------------------------------------


def test_an_added_snapshot_is_not_current_yet() -> None:
    table = applied(a_table(), add(snapshot(1)))
    assert ids_of(table) == [1]
    assert current_snapshot(table) is None
    assert table["last-sequence-number"] == 1


def test_a_snapshot_is_stored_as_it_was_sent() -> None:
    sent = snapshot(1, x_ours={"a": [1]}, key_id="k1")
    assert applied(a_table(), add(sent))["snapshots"] == [sent]


def test_a_snapshot_id_is_taken_once() -> None:
    with pytest.raises(Invalid, match="Snapshot already exists for id: 1"):
        applied(with_history(a_table(), 1), add(snapshot(1, sequence=5)))


def test_a_snapshot_id_is_taken_once_within_a_request() -> None:
    with pytest.raises(Invalid, match="Snapshot already exists for id: 1"):
        applied(a_table(), add(snapshot(1)), add(snapshot(1, sequence=5)))


@pytest.mark.parametrize("sequence", [0, 2, 3])
def test_an_overtaken_sequence_number_asks_the_client_to_retry(sequence: int) -> None:
    with pytest.raises(RequirementFailed, match=f"sequence number {sequence} older than last sequence number 3"):
        applied(with_history(a_table(), 3), add(snapshot(9, parent=3, sequence=sequence)))


def test_a_snapshot_without_parent_may_be_old_and_the_last_sequence_number_stays() -> None:
    table = applied(with_history(a_table(), 3), add(snapshot(9, sequence=2)))
    assert ids_of(table) == [1, 2, 3, 9]
    assert table["last-sequence-number"] == 3


def test_v1_has_no_sequence_numbers() -> None:
    table = with_history(a_table(1), 2)
    assert "last-sequence-number" not in table
    with pytest.raises(Invalid, match="must be 0 in v1: 5"):
        applied(table, add(snapshot(3, parent=2, sequence=5)))


def test_v1_snapshots_may_list_their_manifests() -> None:
    sent = {"snapshot-id": 1, "timestamp-ms": CREATED_MS, "manifests": ["file:/m1.avro"]}
    assert applied(a_table(1), add(sent))["snapshots"] == [sent]
    for wrong in (None, "file:/m1.avro", [1]):
        with pytest.raises(Invalid, match="'manifests' must be a list of strings"):
            applied(a_table(1), add(sent | {"manifests": wrong}))


def test_v3_reserves_the_row_ids_of_a_snapshot() -> None:
    table = applied(a_table(3), add(snapshot(1, first_row_id=0, added_rows=25)))
    assert table["next-row-id"] == 25


def test_v3_row_ids_are_never_given_twice_even_after_a_gap() -> None:
    table = applied(a_table(3), add(snapshot(1, first_row_id=100, added_rows=25)))
    assert table["next-row-id"] == 125


def test_v3_needs_the_first_row_id() -> None:
    with pytest.raises(Invalid, match="first-row-id is null"):
        applied(a_table(3), add(snapshot(1)))


def test_v3_asks_to_retry_when_the_row_ids_were_given_to_another() -> None:
    table = with_history(a_table(3), 2)
    with pytest.raises(RequirementFailed, match="first-row-id is behind table next-row-id: 10 < 20"):
        applied(table, add(snapshot(3, parent=2, first_row_id=10, added_rows=5)))


def test_a_first_row_id_needs_a_row_count() -> None:
    with pytest.raises(Invalid, match="'added-rows' is required"):
        applied(a_table(3), add(snapshot(1, first_row_id=0)))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"snapshot-id": "1"}, "'snapshot-id' must be an integer of 64 bits"),
        ({"snapshot-id": True}, "'snapshot-id' must be an integer of 64 bits"),
        ({"timestamp-ms": None}, "'timestamp-ms' must be an integer of 64 bits"),
        ({"manifest-list": None}, "'manifest-list' must be a string"),
        ({"summary": {"operation": 1}}, "'operation' must be a string"),
        ({"sequence-number": -1}, "'sequence-number' cannot be negative"),
        ({"first-row-id": -1, "added-rows": 0}, "'first-row-id' cannot be negative"),
        ({"first-row-id": 0, "added-rows": -1}, "'added-rows' cannot be negative"),
    ],
)
def test_a_malformed_snapshot_is_invalid(broken: Json, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        applied(a_table(3), add({**snapshot(1), **broken}))


# --- refs and the snapshot log ---------------------------------------------------------------------------------------


def test_moving_main_makes_a_snapshot_current_and_logs_it_at_the_snapshots_own_time() -> None:
    table = applied(a_table(), add(snapshot(1)), move(1))
    assert table["current-snapshot-id"] == 1
    assert table["refs"] == {"main": {"type": "branch", "snapshot-id": 1}}
    assert table["snapshot-log"] == [{"timestamp-ms": CREATED_MS + 1000, "snapshot-id": 1}]
    assert table["last-updated-ms"] == NOW_MS


def test_a_rollback_is_logged_at_the_time_it_happens() -> None:
    table = applied(with_history(a_table(), 3), move(1))
    assert table["current-snapshot-id"] == 1
    assert table["snapshot-log"][-1] == {"timestamp-ms": NOW_MS, "snapshot-id": 1}
    assert table["last-sequence-number"] == 3


def test_other_branches_and_tags_do_not_move_the_table() -> None:
    table = applied(with_history(a_table(), 2), move(1, "audit"), move(1, "v1", "tag", max_ref_age_ms=5))
    assert table["current-snapshot-id"] == 2
    assert log_of(table) == [1, 2]
    assert table["refs"]["v1"] == {"type": "tag", "snapshot-id": 1, "max-ref-age-ms": 5}


def test_a_ref_that_is_set_as_it_was_changes_nothing() -> None:
    table = applied(with_history(a_table(), 1), move(1, "v1", "tag"))
    assert applied(table, move(1, "v1", "TAG", max_ref_age_ms=None)) is table


def test_new_retention_for_main_is_not_a_new_entry_of_the_log() -> None:
    table = applied(with_history(a_table(), 2), move(2, min_snapshots_to_keep=3))
    assert table["refs"]["main"]["min-snapshots-to-keep"] == 3
    assert log_of(table) == [1, 2]


def test_fields_of_a_ref_that_are_unknown_to_us_are_kept() -> None:
    assert applied(with_history(a_table(), 1), move(1, "b", x_ours=1))["refs"]["b"]["x-ours"] == 1


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (move(9), "Cannot set main to unknown snapshot: 9"),
        (move(1, kind="tag"), "Cannot set main to a tag"),
        (move(1, "x", "twig"), "unknown type 'twig'"),
        (move(1, "x", max_ref_age_ms=0), "'max-ref-age-ms' must be greater than 0"),
        (move(1, "x", "tag", min_snapshots_to_keep=1), "tags do not support 'min-snapshots-to-keep'"),
        (move(1, "x", "tag", max_snapshot_age_ms=1), "tags do not support 'max-snapshot-age-ms'"),
    ],
)
def test_a_ref_that_cannot_be_is_invalid(update: Json, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        applied(with_history(a_table(), 1), update)


def test_snapshots_that_were_current_only_inside_a_request_are_not_logged() -> None:
    table = applied(
        with_history(a_table(), 1),
        add(snapshot(2, parent=1)),
        move(2),
        add(snapshot(3, parent=2)),
        move(3),
    )
    assert log_of(table) == [1, 3]
    assert ids_of(table) == [1, 2, 3]


def test_removing_main_leaves_no_current_snapshot_but_the_log() -> None:
    table = applied(with_history(a_table(2), 2), drop_ref("main"))
    assert table["current-snapshot-id"] == -1
    assert (table["refs"], log_of(table), ids_of(table)) == ({}, [1, 2], [1, 2])
    assert applied(with_history(a_table(3), 2), drop_ref("main"))["current-snapshot-id"] is None


def test_removing_an_unknown_ref_changes_nothing() -> None:
    table = with_history(a_table(), 1)
    assert applied(table, drop_ref("ghost")) is table


def test_replacing_a_table_starts_a_new_line_with_a_higher_sequence_number() -> None:
    table = applied(with_history(a_table(), 2), drop_ref("main"), add(snapshot(7, sequence=3)), move(7))
    assert (table["current-snapshot-id"], table["last-sequence-number"]) == (7, 3)
    assert log_of(table) == [1, 2, 7]


def test_a_writer_whose_clock_is_far_ahead_does_not_make_the_table_unreadable() -> None:
    ahead = {**snapshot(1), "timestamp-ms": NOW_MS + 3_600_000}
    table = applied(a_table(), add(ahead), move(1))
    assert table["last-updated-ms"] == NOW_MS + 3_600_000 - 60_000
    table = applied(table, add(snapshot(2, parent=1)), move(2))
    assert [entry["timestamp-ms"] for entry in table["snapshot-log"]] == [
        NOW_MS + 3_600_000,
        NOW_MS + 3_600_000 - 60_000,
    ]


# --- removing --------------------------------------------------------------------------------------------------------


def test_removed_snapshots_leave_with_the_history_before_them() -> None:
    table = applied(with_history(a_table(), 4), remove(2, 99))
    assert ids_of(table) == [1, 3, 4]
    assert log_of(table) == [3, 4]


def test_removing_unknown_snapshots_changes_nothing() -> None:
    table = with_history(a_table(), 1)
    assert applied(table, remove(8, 9)) is table


def test_a_removed_snapshot_takes_its_statistics_along() -> None:
    table = applied(with_history(a_table(), 3), statistics(1), statistics(3), partition_statistics(1))
    table = applied(table, remove(1))
    assert [file["snapshot-id"] for file in table["statistics"]] == [3]
    assert table["partition-statistics"] == []


def test_a_snapshot_that_a_tag_holds_is_not_removed_behind_its_back() -> None:
    table = applied(with_history(a_table(), 3), move(1, "v1", "tag"))
    with pytest.raises(RequirementFailed, match="tag v1 holds snapshot 1"):
        applied(table, remove(1))


def test_the_current_snapshot_is_not_removed() -> None:
    with pytest.raises(RequirementFailed, match="branch main holds snapshot 3"):
        applied(with_history(a_table(), 3), remove(3))


@pytest.mark.parametrize("updates", [[drop_ref("v1"), remove(1)], [remove(1), drop_ref("v1")]])
def test_a_snapshot_goes_when_the_same_request_removes_the_tag(updates: list[Json]) -> None:
    table = applied(applied(with_history(a_table(), 3), move(1, "v1", "tag")), *updates)
    assert (ids_of(table), list(table["refs"])) == ([2, 3], ["main"])


def test_a_rolled_back_snapshot_can_be_removed_in_the_same_request() -> None:
    table = applied(with_history(a_table(), 3), move(2), remove(3))
    assert (ids_of(table), ref_snapshot_id(table, "main")) == ([1, 2], 2)
    assert log_of(table) == [2]


def test_removing_everything_does_not_lower_the_counters() -> None:
    table = applied(with_history(a_table(3), 3), drop_ref("main"), remove(1, 2, 3))
    assert (table["snapshots"], table["snapshot-log"]) == ([], [])
    assert (table["last-sequence-number"], table["next-row-id"]) == (3, 30)


def test_a_removed_snapshot_is_not_found_again_in_the_same_request() -> None:
    with pytest.raises(Invalid, match="unknown snapshot: 1"):
        applied(with_history(a_table(), 2), remove(1), move(1, "late"))


# --- statistics and keys ---------------------------------------------------------------------------------------------


def statistics(snapshot_id: int, name: str = "stats") -> Json:
    file = {
        "snapshot-id": snapshot_id,
        "statistics-path": f"{LOCATION}/metadata/{name}.puffin",
        "file-size-in-bytes": 10,
        "file-footer-size-in-bytes": 5,
        "blob-metadata": [],
    }
    return {"action": "set-statistics", "snapshot-id": 404, "statistics": file}


def partition_statistics(snapshot_id: int, name: str = "parts") -> Json:
    path = f"{LOCATION}/metadata/{name}.parquet"
    file = {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 10}
    return {"action": "set-partition-statistics", "partition-statistics": file}


def test_statistics_of_a_snapshot_replace_earlier_ones() -> None:
    table = applied(with_history(a_table(), 2), statistics(1, "old"), statistics(2), statistics(1, "new"))
    assert [file["statistics-path"].rsplit("/", 1)[1] for file in table["statistics"]] == ["stats.puffin", "new.puffin"]


def test_partition_statistics_of_a_snapshot_replace_earlier_ones() -> None:
    table = applied(with_history(a_table(), 1), partition_statistics(1, "old"), partition_statistics(1, "new"))
    assert [file["statistics-path"] for file in table["partition-statistics"]] == [f"{LOCATION}/metadata/new.parquet"]


@pytest.mark.parametrize("kind", ["statistics", "partition-statistics"])
def test_removed_statistics_are_gone_and_unknown_ones_change_nothing(kind: str) -> None:
    table = applied(with_history(a_table(), 1), statistics(1), partition_statistics(1))
    removed = applied(table, {"action": f"remove-{kind}", "snapshot-id": 1})
    assert removed[kind] == []
    assert applied(removed, {"action": f"remove-{kind}", "snapshot-id": 1}) is removed


def key(key_id: str, secret: str = "c2VjcmV0") -> Json:
    return {"action": "add-encryption-key", "encryption-key": {"key-id": key_id, "encrypted-key-metadata": secret}}


def test_an_encryption_key_is_added_once() -> None:
    table = applied(a_table(3), key("a"), key("b"), key("a", "b3RoZXI="))
    assert table["encryption-keys"] == [key("a")["encryption-key"], key("b")["encryption-key"]]


def test_the_last_removed_encryption_key_takes_the_list_along() -> None:
    table = applied(a_table(3), key("a"))
    assert "encryption-keys" not in applied(table, {"action": "remove-encryption-key", "key-id": "a"})
    assert applied(table, {"action": "remove-encryption-key", "key-id": "z"}) is table


def test_a_snapshot_is_found_by_its_id() -> None:
    table = with_history(a_table(), 3)
    assert snapshot_by_id(table, 2) == table["snapshots"][1]
    assert snapshot_by_id(table, 9) is None
