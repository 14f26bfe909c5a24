"""`firn hive convert`, against a server in this process beside a Hive in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from catalog.jobs.job import JobKind, JobStatus
from catalog.names import TableName
from server.app import create_app
from server.background.registry import build_background
from tests.command_line import Command
from tests.factories import LAKE
from tests.server.default_settings import settings_in
from tests.server.listening import listening
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.converted_tables import Optimizer, rows, text_table


@dataclass
class Site:
    """A server with a table of text, and the command line."""

    beside: BesideHive
    run: Command
    table: HiveFiles


@pytest.fixture
def site(beside: BesideHive) -> Iterator[Site]:
    hive = beside.services.hive
    hive.index, hive.checks, hive.conversions = beside.upgrades.index, beside.upgrades.checks, beside.conversions
    settings = settings_in(beside.directory / "data")
    with listening(create_app(settings, beside.services, build_background(settings, beside.services))) as url:
        yield Site(beside, Command(url), text_table(beside))


def test_a_dry_run_calls_it_a_rewrite(site: Site) -> None:
    output = site.run("hive", "convert", site.table.name, "--as", "copies.clicks", "--dry-run", "--json")
    summary = {key: output.json[key] for key in ("table", "target", "files", "bytes", "convertible")}
    expected = {"table": site.table.name, "target": "copies.clicks", "files": 2, "bytes": 22, "convertible": True}
    assert (output.code, summary) == (0, expected)
    people = site.run("hive", "convert", site.table.name, "--dry-run")
    assert "conversion of" in people.out
    assert "neither synced nor published" in people.err
    report = site.run("hive", "check", site.table.name, "--json")
    assert (report.code, report.json[0]["eligible"], report.json[0]["convertible"]) == (1, False, True)
    assert f"firn hive convert {site.table.name}" in str(report.json[0]["checks"])
    parquet = site.run("hive", "convert", site.beside.hive_table().name, "--dry-run")
    assert (parquet.code, "files need no rewrite" in parquet.out.replace("\n", " ")) == (1, True)
    assert site.beside.written() == set()


def test_a_table_is_converted_under_another_name(site: Site) -> None:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(site.run, "hive", "convert", site.table.name, "--as", "copies.clicks", "--json")
        while not site.beside.services.jobs.has_work("default", [JobKind.CONVERT]):
            assert not future.done(), future.result()
        Optimizer(site.beside).work()
    ended = future.result()
    assert (ended.code, ended.json["kind"], ended.json["status"]) == (0, "convert", "succeeded")
    assert ended.json["result"] == {"rows": 2}
    assert rows(site.beside, TableName(("copies",), "clicks")) == ["2"]
    assert "is a copy of" in site.run("hive", "convert", site.table.name, "--as", "copies.clicks").err


def test_a_failed_rewrite_says_what_stays_and_is_asked_for_again(site: Site) -> None:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(site.run, "hive", "convert", site.table.name)
        while not site.beside.services.jobs.has_work("default", [JobKind.CONVERT]):
            assert not future.done(), future.result()
        with site.beside.database.reading() as uow:
            relation = uow.relations.find(LAKE, site.beside.table_name(site.table))
            assert relation is not None
            active = uow.jobs.active_of(relation.id)
        assert active is not None
        site.beside.services.jobs.cancel(active.id)
    ended = future.result()
    assert ended.code == 1
    assert "is empty; fix the cause" in ended.err
    retried = site.run("job", "retry", str(active.id))
    assert retried.code == 1
    again = site.beside.conversions.start(LAKE, site.table.name)
    assert again.status is JobStatus.PENDING


def test_a_key_is_looked_at_by_the_dry_run_and_given_to_the_job(site: Site) -> None:
    name = site.table.name
    dry = site.run("hive", "convert", name, "--key", "id,nope", "--dry-run", "--json")
    assert (dry.code, [check["code"] for check in dry.json["checks"]]) == (1, ["key_unknown"])
    dry_run = site.run("hive", "convert", name, "--key", "id", "--sequence-field", "v", "--dry-run")
    assert (dry_run.code, "one that repeats, stops it" in dry_run.err.replace("\n", " ")) == (0, True)
    alone = site.run("hive", "convert", name, "--sequence-field", "v", "--dry-run")
    assert (alone.code, "name the primary key too" in alone.err) == (2, True)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(site.run, "hive", "convert", name, "--key", "id", "--sequence-field", "v", "--no-unique")
        while not site.beside.services.jobs.has_work("default", [JobKind.CONVERT]):
            assert not future.done(), future.result()
        lease, task = Optimizer(site.beside).take()
        assert (task["parts"][-1], task["primary_key"], task["unique"]) == ("base", ["id"], False)
        site.beside.services.jobs.cancel(lease.job_id)
    assert future.result().code == 1
