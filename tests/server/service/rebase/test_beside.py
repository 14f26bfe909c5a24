"""Appends beside maintenance, and beside commits that have nothing to do with them."""

from __future__ import annotations

import pytest

from catalog.errors import RequirementFailed
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from tests.server.appending import an_append, entries_in, ids_in
from tests.server.lake import PLAIN, Lake, altered, set_property
from tests.server.service.rebase.overtaking import (
    head,
    with_column,
)

# --- whose commit wins -----------------------------------------------------------------------------------------------


def test_an_append_that_lands_before_a_job_commits_stands_and_the_job_is_refused(table: Lake) -> None:
    lease = table.lease(JobKind.REWRITE, PLAIN)
    first = entries_in(table)[0]["data_file"]["file_path"]
    rewrite = an_append(table, [0], removed=[first])
    rewrite.snapshot["summary"]["operation"] = "replace"
    table.commit(an_append(table, [1]).change)
    with pytest.raises(RequirementFailed, match="branch main has changed"):
        table.commit(rewrite.change, lease=lease)
    assert ids_in(table) == [0, 1]
    again = an_append(table, [0], removed=[first])
    again.snapshot["summary"]["operation"] = "replace"
    table.commit(again.change, lease=lease)
    assert ids_in(table) == [0, 1]


def test_an_append_overtaken_by_a_rewrite_is_put_onto_it(table: Lake) -> None:
    """The other way round: with the option on, maintenance is no reason to make a user's append again."""
    mine, first = an_append(table, [1]), entries_in(table)[0]["data_file"]["file_path"]
    lease = table.lease(JobKind.REWRITE, PLAIN)
    rewrite = an_append(table, [0], removed=[first])
    rewrite.snapshot["summary"]["operation"] = "replace"
    table.commit(rewrite.change, lease=lease)
    table.commit(mine.change)
    assert ids_in(table) == [0, 1]


# --- disjoint updates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rebase", ["true", "false"])
def test_properties_tags_and_schemas_never_conflict_with_data(lake: Lake, rebase: str) -> None:
    lake.create(PLAIN, **{"firn.append.rebase": rebase})
    lake.commit(an_append(lake, [0]).change)
    seen = lake.metadata(PLAIN)
    tag = {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": head(lake)["snapshot-id"]}
    no_tag: Json = {"type": "assert-ref-snapshot-id", "ref": "t", "snapshot-id": None}
    same: Json = {"type": "assert-table-uuid", "uuid": seen["table-uuid"]}
    others = [
        altered(PLAIN, set_property("a", "b"), requirements=[same]),
        altered(PLAIN, tag, requirements=[same, no_tag]),
        altered(PLAIN, *with_column(seen, required=False), requirements=[same]),
    ]
    mine = an_append(lake, [1], metadata=seen)
    for other in others:
        lake.commit(other)
    lake.commit(mine.change)
    late = altered(PLAIN, {"action": "remove-snapshot-ref", "ref-name": "t"}, requirements=[same])
    lake.commit(late)
    assert ids_in(lake) == [0, 1]
    assert lake.metadata(PLAIN)["properties"]["a"] == "b"
