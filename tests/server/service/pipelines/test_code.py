"""Python of pipelines in the server: stored as text, handed to optimizers that run code, and to no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import Conflict, InvalidDefinition
from catalog.jobs.job import JobKind
from server.service.pipelines.code import check_code
from tests.server.service.pipelines.stage import DAILY, DEFINED, PipelineStage, version

FILES = [{"path": "a.py", "text": "raise SystemExit"}, {"path": "b.py", "text": ""}, {"path": "c.sql", "text": ""}]
CODE: dict[str, Any] = {"function": {"path": "a.py", "name": "f"}, "modules": ["a.py"]}
TABLE: dict[str, Any] = {**DEFINED, "code": CODE, "incremental": False, "scope": []}


def test_only_optimizers_that_run_code_get_it(stage: PipelineStage) -> None:
    stage.put(TABLE, files=FILES)
    job = stage.request()
    jobs, group = stage.lake.services.jobs, "default"
    assert not jobs.has_work(group, [JobKind.PIPELINE])
    assert jobs.take(stage.optimizer, [JobKind.PIPELINE]) is None
    assert jobs.has_work(group, [JobKind.PIPELINE], allow_code=True)
    leased = jobs.take(stage.optimizer, [JobKind.PIPELINE], allow_code=True)
    assert leased is not None
    assert leased.job.id == job.id
    task = stage.lake.services.pipeline_runs.build_task(leased.job)
    assert [(file.path, file.text) for file in task.modules] == [("a.py", "raise SystemExit")]


def test_sql_needs_no_such_optimizer_and_gets_no_files(stage: PipelineStage) -> None:
    stage.put(DEFINED, files=FILES)
    stage.request()
    leased = stage.lake.services.jobs.take(stage.optimizer, [JobKind.PIPELINE])
    assert leased is not None
    assert stage.lake.services.pipeline_runs.build_task(leased.job).modules == []


def test_a_validator_in_python_is_code(stage: PipelineStage) -> None:
    validator = {"name": "v", "kind": "python", "function": {"path": "b.py", "name": "v"}, "modules": ["b.py"]}
    stage.put({**DEFINED, "validators": [validator]}, files=FILES)
    assert stage.request().params["code"] is True


@pytest.mark.parametrize(
    ("table", "files", "words"),
    [
        ({**TABLE, "code": {**CODE, "modules": ["d.py"]}}, FILES, "mart.daily needs d.py, which is no Python file"),
        ({**TABLE, "code": {**CODE, "modules": ["c.sql"]}}, FILES, "mart.daily needs c.sql, which is no Python file"),
        (TABLE, [], "mart.daily needs a.py"),
        ({**DEFINED, "inputs": []}, FILES, "mart.daily reads no table"),
        (
            TABLE,
            [*FILES, *({"path": f"m{n}.py", "text": "x" * 200_000} for n in range(5)), {"path": "n.py", "text": "x"}],
            "the Python files have 1,000,017 characters; 1,000,000 are allowed",
        ),
    ],
)
def test_code_without_its_files_or_too_much_of_it(
    stage: PipelineStage, table: dict[str, Any], files: list[dict[str, str]], words: str
) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        stage.put(table, files=files)


def test_a_server_that_allows_no_code_refuses_it_at_put_and_at_each_run(stage: PipelineStage) -> None:
    services = stage.lake.services
    pipelines = replace(services.pipelines, allows_code=False)
    stage.put(TABLE, files=FILES)
    body = services.pipelines.get_version("orders", 1)
    with pytest.raises(InvalidDefinition, match="this server allows no Python in pipelines"):
        pipelines.put("orders", version(TABLE, files=FILES), None)
    assert len(body.files) == 3
    pipeline = services.pipelines.get("orders")
    (table,) = pipeline.tables
    assert table.name == DAILY
    with pytest.raises(Conflict, match=r"mart\.daily of pipeline orders is computed by Python"):
        check_code(pipeline.pipeline, table, allowed=False)
