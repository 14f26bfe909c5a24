"""Appends that others overtake, and what is done to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.errors import RequirementFailed
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from tests.server.appending import Sent, an_append, avro_files, ids_in
from tests.server.faults import FaultyFiles
from tests.server.lake import PLAIN, Lake

ON = {"firn.append.rebase": "true"}


def overtaken(lake: Lake) -> Sent:
    """An append of row 1 that another one, of row 2, has overtaken."""
    mine = an_append(lake, [1])
    lake.commit(an_append(lake, [2]).change)
    return mine


def head(lake: Lake) -> Json:
    snapshot: Json = lake.metadata(PLAIN)["snapshots"][-1]
    return snapshot


def refused(lake: Lake, change: TableCommit) -> None:
    """The commit is refused for the head that has moved, and leaves nothing."""
    before = ids_in(lake), lake.metadata_files(), avro_files(lake)
    with pytest.raises(RequirementFailed, match="Requirement failed: branch main has changed"):
        lake.commit(change)
    assert (ids_in(lake), lake.metadata_files(), avro_files(lake)) == before


def with_column(metadata: Json, *, required: bool, name: str = "more") -> list[Json]:
    schema = metadata["schemas"][-1]
    column = {"id": metadata["last-column-id"] + 1, "name": name, "type": "long", "required": required}
    wanted = {**schema, "fields": [*schema["fields"], column]}
    return [{"action": "add-schema", "schema": wanted}, {"action": "set-current-schema", "schema-id": -1}]


def on_branch(sent: Sent, branch: str) -> TableCommit:
    renamed = [
        {**requirement, "ref": branch} if "ref" in requirement else requirement
        for requirement in sent.change.requirements
    ]
    moved = {**sent.change.updates[1], "ref-name": branch}
    return replace(sent.change, requirements=renamed, updates=[sent.change.updates[0], moved])


def made_on(sent: Sent, metadata: Json, snapshot_id: int | None = None) -> TableCommit:
    """The same commit, said to be made on the head of `metadata`."""
    parent = metadata["snapshots"][-1]["snapshot-id"]
    own_id = sent.snapshot["snapshot-id"] if snapshot_id is None else snapshot_id
    snapshot = {**sent.snapshot, "parent-snapshot-id": parent, "snapshot-id": own_id}
    required = [
        {**requirement, "snapshot-id": parent} if "ref" in requirement else requirement
        for requirement in sent.change.requirements
    ]
    updates = [{**sent.change.updates[0], "snapshot": snapshot}, {**sent.change.updates[1], "snapshot-id": own_id}]
    return replace(sent.change, requirements=required, updates=updates)


def kill_after_write(lake: Lake, only: str) -> None:
    files = FaultyFiles(lake.services.metadata.files, kill_after_write=True, only=only)
    object.__setattr__(lake.services.metadata, "files", files)


def no_answer(_self: object, _location: str, _at_most: int) -> bytes:
    raise TimeoutError(110, "Connection timed out")
