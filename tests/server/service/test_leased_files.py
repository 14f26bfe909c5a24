"""Which files a job may open, as its optimizer is told and asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from catalog.errors import LeaseLost, LocationRefused
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.names import TableName
from firn.protocol.tasks.convert import ConvertTask, Layout, Reader, Unit
from server.service.jobs.leased_files import FileFacts
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake
from tests.server.service.pipelines.stage import DEFINED, PipelineStage

OTHER = TableName(("db",), "other")
HIDDEN = TableName(("db",), "hidden")


def load_facts(lake: Lake, lease: Lease) -> FileFacts:
    leased = lake.services.tasks.build_for_lease(lake.job(lease))
    return lake.services.leased_files.load_facts(leased.context, leased.task)


def directory_of(lake: Lake, name: TableName) -> str:
    return str(lake.metadata(name)["location"]).rstrip("/")


@pytest.fixture
def lease(lake: Lake) -> Lease:
    lake.create()
    lake.create(HIDDEN)
    return lake.lease(JobKind.EXPIRE, PLAIN)


def test_a_lease_tells_where_the_tables_own_files_are(lake: Lake, lease: Lease) -> None:
    facts = load_facts(lake, lease)
    assert (facts.own_locations[0], facts.hive_table, facts.delegation) == (directory_of(lake, PLAIN), None, [])
    assert [table.name for table in facts.tables] == [PLAIN]


def test_both_stores_of_a_keyed_table_are_told(lake: Lake) -> None:
    lake.create_keyed()
    lease = lake.lease(JobKind.EXPIRE, TableName(("db",), "orders"))
    facts = load_facts(lake, lease)
    assert sorted(table.name.name for table in facts.tables) == ["base", "change"]
    lake.services.leased_files.check(lease, [f"{place}/data/" for place in facts.own_locations])


@pytest.mark.parametrize(
    "way", ["{hidden}/data/", "{hidden}/data/x.parquet", "{own}/../{name}/data/", "{own}/%2e%2e/{name}/"]
)
def test_a_hidden_tables_directory_is_refused_without_its_name(lake: Lake, lease: Lease, way: str) -> None:
    hidden = directory_of(lake, HIDDEN)
    path = way.format(hidden=hidden, own=directory_of(lake, PLAIN), name=hidden.rpartition("/")[2])
    with pytest.raises(LocationRefused) as refused:
        lake.services.leased_files.check(lease, [f"{directory_of(lake, PLAIN)}/data/", path])
    assert "db.hidden" not in f"{refused.value.message} {refused.value.hint}"


def test_a_link_out_of_the_table_is_followed(lake: Lake, lease: Lease) -> None:
    own = Path(directory_of(lake, PLAIN).removeprefix("file://"))
    (own / "data").mkdir(parents=True, exist_ok=True)
    (own / "data" / "link").symlink_to("/etc")
    with pytest.raises(LocationRefused):
        lake.services.leased_files.check(lease, [f"file://{own}/data/link/"])


def test_a_landing_area_may_be_read_once_an_administrator_has_allowed_it(
    lake: Lake, lease: Lease, tmp_path: Path
) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    with pytest.raises(LocationRefused):
        lake.services.leased_files.check(lease, [f"{landing}/a/"])
    allowed = {"firn.storage.allowed-locations": str(landing)}
    lake.services.namespaces.change_catalog_properties(LAKE, updates=allowed, removals=())
    lake.services.leased_files.check(lease, [f"{landing}/a/"])


def test_a_lease_that_has_ended_is_told_nothing_of_files(lake: Lake, lease: Lease) -> None:
    lake.services.jobs.cancel(lease.job_id)
    with pytest.raises(LeaseLost):
        lake.services.leased_files.check(lease, [])


def converting(location: str) -> ConvertTask:
    layout = Layout(reader=Reader.SERDE, serde="s", input_format="i", parameters={}, columns=[])
    return ConvertTask(
        parts=["db", "t"],
        source="h.t",
        columns=[],
        partition_columns=[],
        table=layout,
        parameters={},
        header_lines=0,
        layouts=[layout],
        units=[Unit(location=location, values=[], layout=0)],
        writer="w",
        batch="b",
        primary_key=[],
        unique=True,
    )


def test_a_hive_tables_directory_in_a_hidden_table_is_not_read(lake: Lake, lease: Lease) -> None:
    """Whoever may alter a Hive table chooses its directories: a conversion read hidden rows by them."""
    job = replace(lake.job(lease), kind=JobKind.CONVERT, params={"hive": "h.t"})
    context = replace(lake.services.tasks.build_for_lease(lake.job(lease)).context, job=job)
    task = converting(f"{directory_of(lake, HIDDEN)}/data")
    with pytest.raises(LocationRefused) as refused:
        lake.services.leased_files.load_facts(context, task)
    assert "db.hidden" not in refused.value.message
    assert lake.services.leased_files.load_facts(context, converting("hdfs://nn/hive/t")).tables


def link(lake: Lake, name: TableName) -> None:
    """As an upgrade leaves it: the relation names its Hive table."""
    with lake.database.writing() as uow:
        relation = uow.relations.find(LAKE, name)
        assert relation is not None
        uow.relations.add(replace(uow.dropped.take(relation.id), hive_name=f"shop.{name.name}"))


def test_a_run_over_several_hive_tables_opens_the_files_of_each_and_no_others(lake: Lake) -> None:
    """The check of one input refused the files of another one, which lie in another table's directory."""
    stage = PipelineStage.of(lake)
    lake.create(OTHER)
    lake.create(HIDDEN)
    for name in (PLAIN, OTHER):
        link(lake, name)
    stage.put({**DEFINED, "inputs": [str(PLAIN), str(OTHER)]})
    lease = stage.begin().lease
    lake.services.leased_files.check(lease, [f"{directory_of(lake, name)}/data/" for name in (OTHER, PLAIN)])
    for place in (f"{directory_of(lake, HIDDEN)}/data/", "file:/far/away/"):
        with pytest.raises(LocationRefused):
            lake.services.leased_files.check(lease, [f"{directory_of(lake, OTHER)}/data/", place])
