"""What is known about the changes of a plain input, if the server lists the changed files and if it refuses to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from firn.errors import Refused
from firn.protocol.answers.changes import ChangedFile, FileChangesOut, FileState, ReadFile
from firn.protocol.pipelines import InputChanges
from optimizer.pipelines import inputs, snapshots
from optimizer.pipelines.inputs import PlainInput

NOTHING = FileState(snapshot_id=None, committed_at=None)


def build_file(size: int) -> ReadFile:
    return ReadFile(data_file={"file-size-in-bytes": size}, deletes=[])


def build_input(answer: Any, since: str = "1") -> PlainInput:
    """A table with the snapshots 1 to 3, each the child of the one before."""
    lake: Any = MagicMock()
    lake.table.return_value.changed_files.side_effect = [answer, answer]
    return PlainInput(lake, "raw.trip", since, "3")


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = {1: None, 2: 1, 3: 2}
    iceberg = SimpleNamespace(
        snapshot=lambda key: SimpleNamespace(parentId=lambda: parents[key]) if key in parents else None
    )
    monkeypatch.setattr(snapshots, "load_iceberg_table", lambda *_: iceberg)
    monkeypatch.setattr(inputs, "read_total_bytes", lambda *_: 900)


def test_commits_and_files_are_counted() -> None:
    changed = [
        ChangedFile(before=build_file(10), after=build_file(20)),
        ChangedFile(before=None, after=build_file(5)),
    ]
    answer = FileChangesOut(columns=[], since=NOTHING, until=NOTHING, files=changed, delete_files=[])
    pinned = build_input(answer)
    assert pinned.count_changes() == InputChanges(table="raw.trip", commits=2, files=2, bytes=35)
    assert pinned.measure() == (35, 900)


def test_a_run_goes_on_in_full_if_too_many_files_differ_to_list_them() -> None:
    """The measures must not end the run that `find_obstacle` has made full."""
    pinned = build_input(Refused("too many files"))
    assert pinned.measure() == (900, 900)
    assert build_input(Refused("too many files")).count_changes() == InputChanges(table="raw.trip", commits=2)


def test_no_way_leads_to_a_snapshot_that_was_rolled_back() -> None:
    assert build_input(Refused("too many files"), since="9").count_changes() == InputChanges(table="raw.trip")
