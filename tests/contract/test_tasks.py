"""Every kind of job that is planned gets its own task, and the JSON of a lease loses nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.jobs.job import JobKind
from firn.protocol.base import Task
from firn.protocol.tasks.files import CompactTask, DeletesTask, ManifestsTask, RewriteTask
from firn.protocol.tasks.merge import CleanTask, MergeTask
from firn.protocol.tasks.orphans import OrphansTask
from firn.protocol.tasks.retention import ExpireTask
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.server.lake import CHANGE, PLAIN, Lake, a_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    engine = open_engine(f"sqlite:///{tmp_path / 'firn.db'}")
    upgrade_schema(engine)
    lake = a_lake(SqlDatabase(Sessions(engine)), tmp_path)
    lake.create_keyed()
    lake.create(PLAIN)
    lake.append(CHANGE)
    lake.append(PLAIN)
    return lake


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
def test_a_keyed_tables_task_comes_out_of_json_as_it_went_in(lake: Lake, kind: JobKind, model: type[Task]) -> None:
    task = lake.services.tasks.build(lake.job(lake.lease(kind)))
    assert isinstance(task, model)
    assert model.model_validate_json(task.model_dump_json()) == task


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (JobKind.REWRITE, RewriteTask),
        (JobKind.REWRITE_DELETES, DeletesTask),
        (JobKind.REWRITE_MANIFESTS, ManifestsTask),
        (JobKind.EXPIRE, ExpireTask),
    ],
)
def test_a_plain_tables_task_comes_out_of_json_as_it_went_in(lake: Lake, kind: JobKind, model: type[Task]) -> None:
    task = lake.services.tasks.build(lake.job(lake.lease(kind, PLAIN)))
    assert isinstance(task, model)
    assert model.model_validate_json(task.model_dump_json()) == task
