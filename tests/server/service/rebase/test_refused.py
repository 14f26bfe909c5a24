"""What an overtaken commit has to be for the server to leave it alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from catalog.commits.rebase import REBASED_FROM
from catalog.errors import DuplicateBatch, Invalid, LocationRefused, PositionMoved, RequirementFailed
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.names import TableName
from tests.factories import LAKE
from tests.server.appending import an_append, ids_in
from tests.server.lake import PLAIN, Lake, altered, set_property
from tests.server.service.rebase.overtaking import (
    ON,
    head,
    made_on,
    overtaken,
    refused,
)


@pytest.mark.parametrize(
    "key",
    [
        "flink.max-committed-checkpoint-id",
        "flink.job-id",
        "kafka.connect.offsets.control.group",
        "kafka.connect.commit-id",
        "spark.sql.streaming.epochId",
        "wap.id",
        "replace-partitions",
        "deleted-data-files",
        "added-delete-files",
        "somebody.elses",
        REBASED_FROM,
    ],
)
def test_a_committer_that_may_look_again_gets_its_refusal(table: Lake, key: str) -> None:
    mine = overtaken(table)
    mine.snapshot["summary"][key] = "1"
    refused(table, mine.change)


def test_an_append_onto_a_snapshot_that_the_branch_has_left_is_refused(table: Lake) -> None:
    first = head(table)["snapshot-id"]
    table.commit(an_append(table, [1]).change)
    mine = an_append(table, [2])
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}
    table.commit(altered(PLAIN, back))
    table.commit(an_append(table, [3]).change)
    refused(table, mine.change)


def test_an_append_onto_an_expired_snapshot_is_refused(table: Lake) -> None:
    mine, parent = an_append(table, [1]), head(table)["snapshot-id"]
    table.commit(an_append(table, [2]).change)
    table.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [parent]}))
    refused(table, mine.change)


def test_files_that_the_columns_of_today_do_not_fit_are_refused(table: Lake) -> None:
    mine = an_append(table, [1])
    schema = table.metadata(PLAIN)["schemas"][-1]
    renamed = [{**field, "name": "text"} if field["id"] == 2 else field for field in schema["fields"]]
    set_last = {"action": "set-current-schema", "schema-id": -1}
    table.commit(altered(PLAIN, {"action": "add-schema", "schema": {**schema, "fields": renamed}}, set_last))
    table.commit(an_append(table, [2]).change)
    refused(table, mine.change)


def test_another_requirement_that_fails_is_the_one_that_is_named(table: Lake) -> None:
    mine = overtaken(table)
    requirement: Json = {"type": "assert-default-spec-id", "default-spec-id": 5}
    with pytest.raises(RequirementFailed, match="default partition spec changed"):
        table.commit(replace(mine.change, requirements=[requirement, *mine.change.requirements]))


@pytest.mark.parametrize("requirement", [{"type": "assert-ref-snapshot-id"}, {"type": "nobody-knows"}, {}])
def test_a_requirement_that_says_nothing_is_told_as_ever(table: Lake, requirement: Json) -> None:
    mine = overtaken(table)
    with pytest.raises(Invalid):
        table.commit(replace(mine.change, requirements=[requirement, *mine.change.requirements]))


def test_a_snapshot_with_other_updates_is_no_plain_append(table: Lake) -> None:
    mine = overtaken(table)
    refused(table, replace(mine.change, updates=[*mine.change.updates, set_property("a", "b")]))


def test_an_append_in_a_transaction_over_two_tables_is_refused_whole(table: Lake) -> None:
    other = TableName(("db",), "other")
    table.create(other, **ON)
    mine = overtaken(table)
    with pytest.raises(RequirementFailed, match="branch main has changed"):
        table.commit(mine.change, an_append(table, [9], name=other).change)
    assert ids_in(table, other) == []


def test_merged_manifests_are_not_taken_apart(table: Lake) -> None:
    """A client that has put its parent's files into a manifest of its own lists that parent's manifest no more."""
    older = table.metadata(PLAIN)
    alone = an_append(table, [1], metadata={**older, "current-snapshot-id": None, "refs": {}})
    merged = made_on(alone, older)
    table.commit(an_append(table, [2]).change)
    refused(table, merged)


def test_manifests_that_lie_about_their_rows_are_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row ids are given by that count: one too low would give the same ids to other rows."""
    lake.create(PLAIN, **ON, **{"format-version": "3"})
    lake.commit(an_append(lake, [0]).change)
    with monkeypatch.context() as patched:
        patched.setattr("server.files.manifests.sum", lambda _: 0, raising=False)
        mine = an_append(lake, [1, 2])
    lake.commit(an_append(lake, [3]).change)
    refused(lake, mine.change)


@pytest.mark.parametrize("place", ["/etc/hostname", "file:///nowhere/snap.avro", "ftp://x/y", ""])
def test_lists_outside_the_table_are_not_read_for_anybody(table: Lake, place: str) -> None:
    mine = overtaken(table)
    mine.snapshot["manifest-list"] = place
    before = table.metadata(PLAIN)
    with pytest.raises(LocationRefused):
        table.commit(mine.change)
    assert table.metadata(PLAIN) == before


@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"no avro at all", bytes(range(256)) * 8])
def test_lists_that_are_no_lists_are_a_refusal_and_no_failure(table: Lake, content: bytes) -> None:
    mine = overtaken(table)
    Path(mine.snapshot["manifest-list"].removeprefix("file://")).write_bytes(content)
    refused(table, mine.change)


def test_every_damaged_byte_of_a_list_is_a_refusal_or_the_same_rows(lake: Lake) -> None:
    lake.create(PLAIN, **ON)
    lake.commit(an_append(lake, [0]).change)
    mine = overtaken(lake)
    path = Path(mine.snapshot["manifest-list"].removeprefix("file://"))
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            lake.commit(mine.change)
        except RequirementFailed:
            continue
        break
    assert set(ids_in(lake)) - {1} == {0, 2}


def test_a_job_is_never_rebased(table: Lake) -> None:
    lease = table.lease(JobKind.REWRITE, PLAIN)
    mine = an_append(table, [1])
    table.commit(an_append(table, [2]).change)
    with pytest.raises(RequirementFailed):
        table.commit(mine.change, lease=lease)
    assert ids_in(table) == [0, 2]


def test_a_batch_is_delivered_once_whoever_overtakes_it(table: Lake) -> None:
    named = {"firn.writer-id": "w", "firn.batch-id": "1"}
    mine, twin = an_append(table, [1], summary=named), an_append(table, [1], summary=named)
    table.commit(an_append(table, [2]).change)
    table.commit(mine.change)
    with pytest.raises(DuplicateBatch):
        table.commit(twin.change)
    assert ids_in(table) == [0, 1, 2]


def test_a_position_moves_once_whoever_overtakes_it(table: Lake) -> None:
    epoch = table.services.writers.register(LAKE, PLAIN, "w").epoch
    progress = {"firn.writer-epoch": str(epoch), "firn.position-from": "none", "firn.position": "t:0:1"}
    named = {"firn.writer-id": "w", **progress}
    mine, twin = an_append(table, [1], summary=named), an_append(table, [1], summary=named)
    table.commit(an_append(table, [2]).change)
    table.commit(mine.change)
    with pytest.raises(PositionMoved):
        table.commit(twin.change)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1, 2]
    assert table.services.writers.get(LAKE, PLAIN, "w").position == "t:0:1"
