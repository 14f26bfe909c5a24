"""Appends that another commit has overtaken are put onto the newer snapshot."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from catalog.errors import CommitUnknown, RequirementFailed, Unavailable
from server.service.commit.idempotency import Idempotency
from tests.server.appending import an_append, avro_files, entries_in, ids_in
from tests.server.faults import Killed
from tests.server.lake import PLAIN, Lake, a_lake, altered, void
from tests.server.service.rebase.overtaking import (
    ON,
    head,
    kill_after_write,
    made_on,
    no_answer,
    on_branch,
    overtaken,
    refused,
    with_column,
)

# --- what it comes to ------------------------------------------------------------------------------------------------


def test_two_appends_made_on_the_same_snapshot_are_both_there(table: Lake) -> None:
    mine = overtaken(table)
    before = head(table)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2]
    assert head(table)["snapshot-id"] == mine.snapshot["snapshot-id"]
    assert head(table)["parent-snapshot-id"] == before["snapshot-id"]
    assert head(table)["sequence-number"] == before["sequence-number"] + 1
    assert head(table)["manifest-list"] != mine.snapshot["manifest-list"]


def test_without_the_property_the_second_is_refused_and_the_requirement_named(lake: Lake) -> None:
    lake.create()
    lake.commit(an_append(lake, [0]).change)
    mine = overtaken(lake)
    with pytest.raises(RequirementFailed, match="branch main has changed: expected id"):
        lake.commit(mine.change)
    assert ids_in(lake) == [0, 2]


def test_what_the_summary_counts_is_counted_anew(table: Lake) -> None:
    table.commit(overtaken(table).change)
    summary = head(table)["summary"]
    assert (summary["total-records"], summary["total-data-files"]) == ("3", "3")
    assert (summary["added-records"], summary["added-data-files"]) == ("1", "1")


def test_every_row_has_an_id_of_its_own_and_every_file_its_commits_number(lake: Lake) -> None:
    lake.create(PLAIN, **ON, **{"format-version": "3"})
    sent = [an_append(lake, [10 * number, 10 * number + 1]) for number in range(4)]
    for append in sent:
        lake.commit(append.change)
    entries = {entry["data_file"]["file_path"]: entry for entry in entries_in(lake)}
    assert [entries[append.file]["sequence_number"] for append in sent] == [1, 2, 3, 4]
    assert [entries[append.file]["data_file"]["first_row_id"] for append in sent] == [0, 2, 4, 6]
    assert lake.metadata(PLAIN)["next-row-id"] == 8


def test_an_append_to_an_empty_table_is_put_onto_the_first_one(lake: Lake) -> None:
    lake.create(PLAIN, **ON)
    first, second = an_append(lake, [1]), an_append(lake, [2])
    lake.commit(first.change)
    lake.commit(second.change)
    assert ids_in(lake) == [1, 2]


def test_an_append_over_a_delete_does_not_bring_the_deleted_rows_back(table: Lake) -> None:
    gone = an_append(table, [5])
    table.commit(gone.change)
    mine = an_append(table, [1])
    table.commit(an_append(table, [6], removed=[gone.file]).change)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 6]


def test_appends_of_many_writers_need_no_second_try(table: Lake) -> None:
    sent = [an_append(table, [number]) for number in range(1, 13)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda append: table.commit(append.change), sent))
    assert ids_in(table) == list(range(13))
    assert [snapshot["sequence-number"] for snapshot in table.metadata(PLAIN)["snapshots"]] == list(range(1, 14))


def test_writers_at_two_servers_need_no_second_try(table: Lake) -> None:
    sent = [an_append(table, [number]) for number in range(1, 9)]
    lakes = [table, table.elsewhere]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda at: lakes[at % 2].commit(sent[at].change), range(8)))
    assert ids_in(table) == list(range(9))


def test_an_append_whose_columns_are_all_there_still_is_rebased_over_new_ones(table: Lake) -> None:
    mine = an_append(table, [1])
    table.commit(altered(PLAIN, *with_column(table.metadata(PLAIN), required=False)))
    table.commit(an_append(table, [2]).change)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2]


def test_a_commit_on_another_branch_takes_numbers_and_nothing_else(table: Lake) -> None:
    main_head = head(table)["snapshot-id"]
    ref = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "branch", "snapshot-id": main_head}
    table.commit(altered(PLAIN, ref))
    beside = on_branch(an_append(table, [7]), "audit")
    table.commit(an_append(table, [1]).change)
    table.commit(beside)
    refs = table.metadata(PLAIN)["refs"]
    assert refs["audit"]["snapshot-id"] == beside.updates[0]["snapshot"]["snapshot-id"]
    assert head(table)["parent-snapshot-id"] == main_head
    assert ids_in(table) == [0, 1]


def test_how_long_a_branch_is_kept_is_what_the_table_says_now(table: Lake) -> None:
    mine = overtaken(table)
    kept = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "min-snapshots-to-keep": 7}
    table.commit(altered(PLAIN, {**kept, "snapshot-id": head(table)["snapshot-id"]}))
    table.commit(mine.change)
    assert table.metadata(PLAIN)["refs"]["main"]["min-snapshots-to-keep"] == 7


# --- repetitions and failures ----------------------------------------------------------------------------------------


def test_a_rebased_append_that_is_sent_again_is_answered_and_counts_once(table: Lake) -> None:
    mine = overtaken(table)
    table.commit(mine.change)
    table.commit(an_append(table, [3]).change)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2, 3]


def test_a_rebased_append_is_known_after_its_snapshot_has_expired(table: Lake) -> None:
    mine = overtaken(table)
    table.commit(mine.change)
    table.commit(an_append(table, [3]).change)
    table.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [mine.snapshot["snapshot-id"]]}))
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("gone", [False, True], ids=["there", "expired"])
def test_an_earlier_try_of_a_snapshot_that_has_landed_is_refused(table: Lake, *, gone: bool) -> None:
    """Java keeps the snapshot's id when it tries again: what was refused comes late and must not come in."""
    early = an_append(table, [1])
    table.commit(an_append(table, [2]).change)
    before, landed = head(table)["snapshot-id"], early.snapshot["snapshot-id"]
    table.commit(made_on(an_append(table, [1]), table.metadata(PLAIN), snapshot_id=landed))
    if gone:
        back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": before}
        table.commit(altered(PLAIN, back))
        table.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [landed]}))
    refused(table, early.change)


STEPS: dict[str, Callable[[Lake], Any]] = {
    "after the list is written": lambda lake: kill_after_write(lake, ".avro"),
    "after the metadata is written": lambda lake: kill_after_write(lake, ".json"),
    "before the transaction commits": lambda lake: lake.database.kill_before_commit(),
    "after the transaction commits": lambda lake: lake.database.kill_after_commit(),
}


@pytest.mark.parametrize("kill", STEPS.values(), ids=STEPS)
def test_a_server_killed_at_any_step_is_repeated_to_one_effect(table: Lake, kill: Callable[[Lake], Any]) -> None:
    mine = overtaken(table)
    kill(table)
    with pytest.raises(Killed):
        table.commit(mine.change)
    again = a_lake(table.database.real, table.warehouse.parent)
    again.commit(mine.change)
    again.commit(mine.change)
    assert ids_in(again) == [0, 1, 2]


def test_a_rebase_that_loses_a_race_is_made_again_and_leaves_no_list(table: Lake) -> None:
    mine = overtaken(table)
    table.database.meanwhile.append(lambda: void(table.elsewhere.commit(an_append(table, [3]).change)))
    before = avro_files(table)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2, 3]
    assert len(avro_files(table) - before) == 2


def test_a_refused_transaction_leaves_no_list(table: Lake) -> None:
    mine = overtaken(table)
    before = avro_files(table), table.metadata_files()
    table.database.refuse()
    with pytest.raises(Unavailable):
        table.commit(mine.change)
    assert (avro_files(table), table.metadata_files()) == before


def test_an_unknown_outcome_deletes_nothing(table: Lake) -> None:
    mine = overtaken(table)
    before = avro_files(table)
    table.database.end_unknown_without_commit()
    with pytest.raises(CommitUnknown):
        table.commit(mine.change)
    assert len(avro_files(table) - before) == 1


def test_a_storage_that_does_not_answer_is_no_refusal(table: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, the client would delete its files; a copy of the request that is still under way would come in."""
    mine = overtaken(table)
    with monkeypatch.context() as patched:
        patched.setattr("server.files.local.LocalFiles.read", no_answer)
        with pytest.raises(Unavailable):
            table.commit(mine.change)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2]


def test_the_answer_under_a_key_is_the_rebased_table(table: Lake) -> None:
    mine = overtaken(table)
    (done,) = table.commit(mine.change, idempotency=Idempotency(key="k", fingerprint="f"))
    with table.services.database.reading() as uow:
        stored = uow.idempotency_keys.find("k")
    assert stored is not None
    assert done.metadata_location in stored.body.decode()
    assert table.services.metadata.load(done.metadata_location).parsed["snapshots"][-1] == head(table)
