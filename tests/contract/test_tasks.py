"""What the server tells an optimizer about a job is what the optimizer reads: the API document leaves it open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from catalog.jobs.job import JobKind
from optimizer.file_tasks import CompactTask, DeletesTask, ManifestsTask, RewriteTask
from optimizer.orphans_task import OrphansTask
from optimizer.retention_tasks import ExpireTask
from optimizer.wire import CleanTask, MergeTask, Wire
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.server.lake import CHANGE, PLAIN, Lake, a_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    engine = open_engine(f"sqlite:///{tmp_path / 'firn.db'}")
    upgrade_schema(engine)
    made = a_lake(SqlDatabase(Sessions(engine)), tmp_path)
    made.create_keyed()
    made.create(PLAIN)
    made.append(CHANGE)
    made.append(PLAIN)
    return made


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (JobKind.MERGE, MergeTask),
        (JobKind.CLEAN, CleanTask),
        (JobKind.REWRITE, RewriteTask),
        (JobKind.COMPACT, CompactTask),
        (JobKind.REWRITE_DELETES, DeletesTask),
        (JobKind.REWRITE_MANIFESTS, ManifestsTask),
        (JobKind.EXPIRE, ExpireTask),
        (JobKind.REMOVE_ORPHANS, OrphansTask),
    ],
)
def test_a_keyed_tables_task_tells_all_that_is_read(lake: Lake, kind: JobKind, model: type[Wire]) -> None:
    told = lake.services.tasks.of(lake.job(lake.lease(kind)))
    assert untold(model.model_validate(told), told) == set()


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (JobKind.REWRITE, RewriteTask),
        (JobKind.REWRITE_DELETES, DeletesTask),
        (JobKind.REWRITE_MANIFESTS, ManifestsTask),
        (JobKind.EXPIRE, ExpireTask),
    ],
)
def test_a_plain_tables_task_tells_all_that_is_read(lake: Lake, kind: JobKind, model: type[Wire]) -> None:
    told = lake.services.tasks.of(lake.job(lake.lease(kind, PLAIN)))
    assert untold(model.model_validate(told), told) == set()


def untold(read: BaseModel, told: dict[str, Any], path: str = "") -> set[str]:
    """What is read and was not told, by path: a default would stand for a fact of the table."""
    missed = {f"{path}{name}" for name in type(read).model_fields.keys() - told.keys()}
    for name, value in told.items():
        below = getattr(read, name, None)
        pairs = zip(below, value, strict=True) if isinstance(below, list) else [(below, value)]
        for part, given in pairs:
            if isinstance(part, BaseModel):
                missed |= untold(part, given, f"{path}{name}.")
    return missed
