"""kill -9 between any two of row, report, move and mark: nothing is lost, and nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from catalog.jobs.leases import Lease
from catalog.names import TableName
from firn.protocol.orphans import BatchState
from server.service.orphans.orphan_removal import Orphans
from tests.server.faults import Killed
from tests.server.lake import Lake
from tests.server.service.dropping import Fuse, append_files
from tests.server.service.orphans.dying import dying_orphans
from tests.server.service.orphans.removing import (
    age,
    aside,
    batches,
    begun,
    everything,
    overdue,
    proposed,
    refer_to,
    relation_id,
    removed,
    stray,
)

FILES = 3
Act = Callable[[Orphans, Lease, TableName, list[Path]], object]


def orphaned(lake: Lake, name: TableName) -> list[Path]:
    """A table with a few orphans."""
    lake.create(name)
    append_files(lake, name)
    age(everything(lake, name))
    return [stray(lake, f"data/{name.name}-{number}.parquet", name) for number in range(FILES)]


def contents(paths: list[Path]) -> set[bytes]:
    return {b"rows of data/" + path.name.encode() for path in paths}


def killed_everywhere(lake: Lake, act: Act, *, aside: bool) -> int:
    """Let the server die at each step of it, each time over a table of its own, and see what the next makes of it."""
    for number in count(1):
        name = TableName(("db",), f"t{number}")
        paths = orphaned(lake, name)
        needed = set(everything(lake, name)) - set(paths)
        if aside:
            removed(lake, name)
        lease = begun(lake, name)
        fuse = Fuse(number)
        died = True
        with suppress(Killed):
            act(dying_orphans(lake, fuse), lease, name, paths)
            died = False
        lake.services.jobs.cancel(lease.job_id)
        assert all(path.exists() for path in needed)
        yield_to_the_next(lake, name, paths)
        if not died:
            return number
    raise AssertionError


def yield_to_the_next(lake: Lake, name: TableName, paths: list[Path]) -> None:
    """Whatever has happened: each file is in place, aside or gone with a report, once."""
    lease = begun(lake, name)
    lake.services.orphans.end_overdue(lease)
    lake.services.jobs.cancel(lease.job_id)
    held = batches(lake, name)
    assert {batch.state for batch in held} <= {BatchState.ASIDE, BatchState.DELETED}
    put_back = {path for batch in held for path in batch.kept}
    in_place = [path for path in paths if path.exists()]
    beside = contents(paths) & aside(lake)
    counted = {state: sum(batch.files for batch in held if batch.state is state) for state in BatchState}
    assert counted[BatchState.ASIDE] - len(put_back) == len(beside)
    assert len(in_place) + len(beside) + counted[BatchState.DELETED] == len(paths)
    assert contents(in_place) & beside == set()
    assert all(path.read_bytes() == b"rows of data/" + path.name.encode() for path in in_place)


def test_killed_while_setting_aside(lake: Lake) -> None:
    def act(orphans: Orphans, lease: Lease, _name: TableName, paths: list[Path]) -> None:
        proposed(lake, lease, paths, orphans)

    assert killed_everywhere(lake, act, aside=False) > 10


def test_killed_while_putting_back(lake: Lake) -> None:
    def act(orphans: Orphans, _lease: Lease, name: TableName, paths: list[Path]) -> None:
        back = orphans.quarantine.restore(relation_id(lake, name))
        assert len(back) == len(paths)

    assert killed_everywhere(lake, act, aside=True) > 5


def test_killed_while_deleting(lake: Lake) -> None:
    def act(orphans: Orphans, lease: Lease, name: TableName, _paths: list[Path]) -> None:
        with lake.database.real.writing() as uow:
            for batch in uow.orphans.of_table(relation_id(lake, name), [BatchState.ASIDE]):
                uow.orphans.put(replace(batch, taken_at=batch.taken_at - timedelta(days=30)))
        assert orphans.end_overdue(lease).deleted_files == FILES

    assert killed_everywhere(lake, act, aside=True) > 5


def test_a_file_that_is_needed_again_comes_back_after_a_kill_in_the_middle_of_deleting(lake: Lake) -> None:
    name = TableName(("db",), "t")
    paths = orphaned(lake, name)
    removed(lake, name)
    refer_to(lake, paths[0], name)
    assert overdue(lake, name).deleted_files == FILES - 1
    assert [path.exists() for path in paths] == [True, False, False]


@pytest.mark.parametrize("state", [BatchState.ASIDE, BatchState.DELETED])
def test_two_servers_that_finish_the_same_batch_count_it_once(lake: Lake, state: BatchState) -> None:
    name = TableName(("db",), "t")
    paths = orphaned(lake, name)
    with suppress(Killed):
        proposed(lake, begun(lake, name), paths, dying_orphans(lake, Fuse(9)))
    relation = relation_id(lake, name)
    for server in (lake, lake.elsewhere, lake):
        server.services.orphans.quarantine.recover(relation)
    assert sum(batch.files for batch in batches(lake, name)) == len(contents(paths) & aside(lake))
    with lake.services.database.reading() as uow:
        active = uow.jobs.active_of(relation)
    assert active is not None
    lake.services.jobs.cancel(active.id)
    if state is BatchState.DELETED:
        assert overdue(lake, name).deleted_files + sum(path.exists() for path in paths) == FILES
        assert overdue(lake, name).deleted_files == 0
