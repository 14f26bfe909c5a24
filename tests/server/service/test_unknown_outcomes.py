"""What cannot be seen is not refused: after a refusal clients delete the files that a landed commit stands on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from catalog.errors import CommitUnknown, Unavailable
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from server.service.tables.metadata_files import MetadataFiles
from tests.factories import LAKE
from tests.server.faults import FaultyDatabase
from tests.server.lake import COLUMNS, PLAIN, Lake, appended, snapshot_ids, snapshot_of

CREATES: list[Json] = [
    {"action": "assign-uuid", "uuid": "AAAAAAAA-1111-4111-8111-111111111111"},
    {"action": "add-schema", "schema": COLUMNS},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"fields": []}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
]


def away(_self: object) -> AbstractContextManager[object]:
    raise Unavailable("the database does not answer")


def unreadable(_self: object, location: str) -> object:
    raise Unavailable(f"cannot read {location}")


def create(lake: Lake) -> object:
    change = TableCommit(name=PLAIN, requirements=[{"type": "assert-create"}], updates=CREATES)
    return lake.services.tables.create_by_commit(LAKE, change)


def committed(lake: Lake) -> TableCommit:
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.commit(change)
    return change


@pytest.mark.parametrize(
    "again",
    [
        lambda lake, change: lake.commit(change),
        lambda lake, _: create(lake),
    ],
    ids=["by its snapshot", "create"],
)
@pytest.mark.parametrize(
    ("holder", "method", "fails"), [(FaultyDatabase, "reading", away), (MetadataFiles, "load", unreadable)]
)
def test_a_repeated_commit_that_cannot_be_looked_up_is_not_refused(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    again: Callable[[Lake, TableCommit], object],
    holder: type,
    method: str,
    fails: Callable[..., object],
) -> None:
    change = committed(lake)
    with monkeypatch.context() as broken:
        broken.setattr(holder, method, fails)
        with pytest.raises(CommitUnknown, match="whether it has applied"):
            again(lake, change)
    lake.commit(change)  # once it can be seen, it is
    assert snapshot_ids(lake.metadata(PLAIN)) == [snapshot_of(change)]


def test_a_created_table_that_cannot_be_read_back_is_not_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(MetadataFiles, "load", unreadable)
        with pytest.raises(CommitUnknown, match="has applied"):
            create(lake)
    assert lake.metadata(PLAIN)["current-schema-id"] == 0


def test_a_repeated_create_is_known_by_its_uuid_however_it_is_spelled(lake: Lake) -> None:
    create(lake)
    create(lake)
    assert lake.metadata(PLAIN)["table-uuid"] == CREATES[0]["uuid"].lower()
