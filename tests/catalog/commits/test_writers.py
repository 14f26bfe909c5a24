"""Commits with a position, and where a rollback sets positions (docs/protocols.md, rules 6.1, 6.2 and 6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from catalog.commits.writers import (
    Progress,
    Writer,
    check_progress,
    check_writer_name,
    move_writers_with_main,
    name_writer_with_progress,
    read_progress,
    register_writer,
)
from catalog.errors import Conflict, Invalid, PositionMoved, WriterFenced
from catalog.iceberg.json import Json
from catalog.names import RelationId
from tests.factories import LATER, NOW

SENT = {
    "firn.writer-id": "w",
    "firn.writer-epoch": "2",
    "firn.position-from": "none",
    "firn.position": "orders:0:5",
}
WRITER = Writer(relation_id=RelationId(uuid4()), name="w", epoch=2, registered_at=NOW)
PROGRESS = Progress(writer="w", epoch=2, start="none", end="orders:0:5", snapshot_id=1)


def updates(summary: Mapping[str, Any], *, ref: str = "main") -> list[Json]:
    return [
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": {"operation": "append", **summary}}},
        {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": 1},
    ]


def test_a_commit_names_its_writer_epoch_and_positions() -> None:
    assert read_progress(updates(SENT)) == PROGRESS
    assert name_writer_with_progress(updates(SENT)) == "w"


@pytest.mark.parametrize("summary", [{}, {"firn.writer-id": "w"}, {"firn.writer-id": "w", "firn.batch-id": "b"}])
def test_commits_without_a_position_are_not_looked_at(summary: Mapping[str, str]) -> None:
    assert read_progress(updates(summary)) is None
    assert name_writer_with_progress(updates(summary)) is None


@pytest.mark.parametrize("missing", SENT)
def test_a_commit_with_a_position_names_all_four(missing: str) -> None:
    with pytest.raises(Invalid, match=f"needs {missing}, too"):
        read_progress(updates({key: text for key, text in SENT.items() if key != missing}))


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ({"firn.writer-epoch": "-1"}, "is not an epoch"),
        ({"firn.writer-epoch": "٣"}, "is not an epoch"),
        ({"firn.writer-epoch": "9" * 40}, "is not an epoch"),
        ({"firn.writer-id": "a\x00b"}, "is not a name for a writer"),
        ({"firn.writer-id": "w" * 256}, "is not a name for a writer"),
        ({"firn.position": "none"}, "is not a position that a commit can reach"),
        ({"firn.position": {"orders": 1}}, "is not a text"),
    ],
)
def test_malformed_progress_is_refused_with_the_reason(summary: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        read_progress(updates({**SENT, **summary}))


def test_a_name_that_no_database_takes_is_not_looked_up() -> None:
    assert name_writer_with_progress(updates({**SENT, "firn.writer-id": "a\x00b"})) is None
    assert name_writer_with_progress(updates({**SENT, "firn.writer-id": 7})) is None


@pytest.mark.parametrize("name", ["", " w", "w ", "a\nb", "w" * 256])
def test_names_of_writers_can_be_printed(name: str) -> None:
    with pytest.raises(Invalid, match="is not a name for a writer"):
        check_writer_name(name)


def test_only_main_has_positions() -> None:
    staged = updates(SENT)[:1]
    two = [*updates(SENT)[:1], *updates(SENT)]
    for sent in (updates(SENT, ref="dev"), staged, two):
        with pytest.raises(Invalid, match="adds one snapshot, and makes it the head of main"):
            read_progress(sent)


def test_rule_6_1_a_commit_from_another_position_is_told_both() -> None:
    check_progress(WRITER, PROGRESS)
    with pytest.raises(PositionMoved) as caught:
        check_progress(replace(WRITER, position="orders:0:3"), PROGRESS)
    assert caught.value.message == (
        "the commit of writer 'w' begins at position 'none', but the table is at 'orders:0:3'"
    )


def test_a_commit_whose_answer_was_lost_is_told_its_snapshot() -> None:
    committed = replace(WRITER, position="orders:0:5", snapshot_id=17)
    with pytest.raises(PositionMoved, match="snapshot 17 has brought the records up to there"):
        check_progress(committed, PROGRESS)


def test_rule_6_2_an_earlier_epoch_is_fenced() -> None:
    with pytest.raises(WriterFenced, match="epoch 2 of writer 'w' is fenced: epoch 3 began at 2026"):
        check_progress(register_writer(WRITER, LATER, None), PROGRESS)
    with pytest.raises(WriterFenced, match="was fenced for good at 2026"):
        check_progress(replace(WRITER, fenced_at=LATER), PROGRESS)


def test_a_writer_registers_before_it_commits() -> None:
    with pytest.raises(Invalid, match="is not registered for this table"):
        check_progress(None, PROGRESS)
    with pytest.raises(Invalid, match="epoch 2 of writer 'w' was never registered; the newest is 1"):
        check_progress(replace(WRITER, epoch=1), PROGRESS)


def test_nobody_registers_under_the_name_of_a_writer_that_was_fenced_for_good() -> None:
    with pytest.raises(Conflict, match="fenced for good"):
        register_writer(replace(WRITER, fenced_at=NOW), LATER, None)


# --- rule 6.7 --------------------------------------------------------------------------------------------------------


def history(*rows: tuple[int, int | None, str | None, str | None]) -> Json:
    """Metadata with snapshots of (id, parent, position from, position)."""
    snapshots = []
    for snapshot_id, parent, start, end in rows:
        summary = {} if start is None else {**SENT, "firn.position-from": start, "firn.position": end}
        above = {} if parent is None else {"parent-snapshot-id": parent}
        snapshots.append({"snapshot-id": snapshot_id, "summary": summary, **above})
    return {"snapshots": snapshots}


LINE = history((1, None, None, None), (2, 1, "none", "a"), (3, 2, None, None), (4, 3, "a", "b"), (5, 4, "b", "c"))
AT_C = replace(WRITER, position="c", snapshot_id=5)


@pytest.mark.parametrize(
    ("target", "position", "snapshot_id"), [(4, "b", 4), (3, "a", 2), (2, "a", 2), (1, "none", None)]
)
def test_rule_6_7_a_rollback_sets_the_position_of_its_snapshot(
    target: int, position: str, snapshot_id: int | None
) -> None:
    (moved,) = move_writers_with_main(LINE, 5, target, [AT_C])
    assert moved == replace(AT_C, position=position, snapshot_id=snapshot_id)


def test_an_undone_rollback_sets_the_position_forward() -> None:
    (moved,) = move_writers_with_main(LINE, 2, 5, [replace(AT_C, position="a", snapshot_id=2)])
    assert moved == AT_C


def test_a_rollback_over_others_commits_leaves_a_position_alone() -> None:
    assert move_writers_with_main(LINE, 5, 1, [replace(WRITER, name="other", position="x")]) == []


def test_main_may_move_to_a_line_that_left_it() -> None:
    forked = history((1, None, "none", "a"), (2, 1, "a", "b"), (3, 1, "a", "x"))
    (moved,) = move_writers_with_main(forked, 2, 3, [replace(WRITER, position="b", snapshot_id=2)])
    assert (moved.position, moved.snapshot_id) == ("x", 3)


def test_a_position_that_expired_snapshots_told_is_not_guessed() -> None:
    tagged = history((1, None, "none", "a"), (4, 3, "b", "c"))  # 2 and 3 have expired, a tag has kept 1
    with pytest.raises(Conflict, match="position of writer 'w' at snapshot 1 have expired"):
        move_writers_with_main(tagged, 4, 1, [AT_C])
    assert move_writers_with_main(tagged, 4, 1, [replace(AT_C, fenced_at=NOW)]) == []
