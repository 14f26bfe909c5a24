"""What the planner plans can be run: a job that nobody takes would keep its table from every other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import catalog.maintenance
import optimizer.jobs
from catalog.jobs.job import AFTER_A_LOOK, JobKind
from catalog.maintenance import KINDS, JobOptions, kind_of
from catalog.maintenance.registry import load_kind
from catalog.tables.relation import RelationKind
from optimizer.jobs import JOBS, load_job
from optimizer.read_checks import reads_nothing
from server.api.table_jobs import StartJobIn

PLANNED = {kind.name for kind in KINDS if kind.trigger is not None}
REQUESTED = {kind.name for kind in KINDS if kind.can_request}


def test_every_name_has_one_kind_and_an_optimizer_that_runs_it() -> None:
    assert sorted(kind.name for kind in KINDS) == sorted(JobKind)
    assert set(JOBS) == set(JobKind)


def test_every_module_of_a_job_is_found_by_the_name_of_its_kind() -> None:
    """A module that no name leads to would never run, and nobody would notice."""
    modules = {kind.module for kind in JobKind}
    for package, kind in ((catalog.maintenance, "MaintenanceKind"), (optimizer.jobs, "OptimizerJob")):
        sources = {path.stem: path.read_text(encoding="utf-8") for path in Path(package.__path__[0]).glob("*.py")}
        pattern = re.compile(rf"^[A-Z_]+ = {kind}\(", re.MULTILINE)
        assert {name for name, source in sources.items() if pattern.search(source)} == modules


def test_the_planner_prefers_the_kinds_in_the_order_of_their_names() -> None:
    assert [kind.name for kind in KINDS] == list(JobKind)


def test_a_constant_that_is_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.maintenance.ttl.TTL", kind_of(JobKind.TAGS))
    with pytest.raises(TypeError, match="TTL is not the kind ttl"):
        load_kind(JobKind.TTL)
    monkeypatch.setattr("optimizer.jobs.ttl.JOB", None)
    with pytest.raises(TypeError, match="JOB is no OptimizerJob"):
        load_job(JobKind.TTL)


def test_every_kind_can_be_requested_but_for_what_begins_with_a_scan_of_hive_and_runs_of_pipelines() -> None:
    assert set(JobKind) - AFTER_A_LOOK - {JobKind.PIPELINE} == REQUESTED
    assert {JobKind.KEYS, JobKind.IMAGE} == REQUESTED - PLANNED


def test_every_kind_says_what_it_opens() -> None:
    """One that does not would open whatever a table's metadata names. A run checks its inputs when they are pinned."""
    nothing = {kind for kind, job in JOBS.items() if job.reads is reads_nothing}
    assert nothing == {"tags", "expire", "remove-orphans", "pipeline"}


def test_a_keyed_table_takes_every_kind_that_can_be_requested_and_a_plain_one_those_without_changes() -> None:
    takes = {
        table: {kind.name for kind in KINDS if kind.can_request and table in kind.tables}
        for table in (RelationKind.KEYED, RelationKind.TABLE)
    }
    assert takes[RelationKind.KEYED] == REQUESTED
    of_changes = {JobKind.MERGE, JobKind.CLEAN, JobKind.COMPACT, JobKind.KEYS, JobKind.IMAGE}
    assert takes[RelationKind.TABLE] == REQUESTED - of_changes


def test_a_dry_run_says_what_every_requested_kind_would_do_or_is_a_job() -> None:
    for kind in KINDS:
        assert not kind.can_request or (kind.dry_run is None) == (kind.dry_run_params is not None)


def test_every_kind_without_options_of_its_own_is_requested_by_its_name_alone() -> None:
    for kind in KINDS:
        if kind.can_request:
            assert isinstance(kind.options().as_params(), dict)
        if kind.options is JobOptions:
            assert kind.options().as_params() == {}


def test_the_api_offers_every_kind_that_can_be_requested() -> None:
    schema = StartJobIn.model_json_schema()
    assert set(schema["discriminator"]["mapping"]) == REQUESTED
