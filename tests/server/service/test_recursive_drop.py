"""A namespace is dropped with everything in it, all or nothing, and comes back as a whole."""

from __future__ import annotations

import pytest

from catalog.errors import Conflict, NamespaceNotEmpty, NoSuchNamespace, Protected
from catalog.jobs.job import JobKind, JobStatus
from catalog.names import Namespace, TableName
from server.service.tables.views import ViewDefinition
from tests.factories import LAKE
from tests.server.lake import CHANGE, COLUMNS, ORDERS, PLAIN, Lake
from tests.server.service.dropping import append_files, keep, listed

DB: Namespace = ("db",)
BELOW = TableName(("db", "eu"), "t")
VIEW = TableName(DB, "v")


@pytest.fixture
def full(lake: Lake) -> Lake:
    """`db` with a plain table, a keyed one, a view, and a namespace with properties and a table below it."""
    lake.create()
    lake.create_keyed()
    append_files(lake, CHANGE)
    lake.services.namespaces.create(LAKE, ("db", "eu"), {"owner": "ana"})
    lake.create(BELOW)
    lake.services.views.create(LAKE, view(VIEW))
    return lake


def view(name: TableName, **properties: str) -> ViewDefinition:
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": list(name.namespace),
        "representations": [{"type": "sql", "dialect": "spark", "sql": "SELECT 1 AS id"}],
    }
    return ViewDefinition(name=name, schema=COLUMNS, version=version, properties=properties)


def test_everything_in_it_goes_and_comes_back(full: Lake) -> None:
    keyed = full.keyed()
    done = full.services.recursive_drops.drop(LAKE, DB)
    assert done.namespaces == [DB, ("db", "eu")]
    assert sorted(relation.name for relation in done.dropped) == ["db.eu.t", "db.orders", "db.plain", "db.v"]
    assert not full.services.namespaces.exists(LAKE, DB)
    assert done.id is not None
    back = full.services.undrops.undrop(LAKE, done.id)
    assert sorted(str(relation.name) for relation in back.restored) == ["db.eu.t", "db.orders", "db.plain", "db.v"]
    assert full.services.namespaces.properties(LAKE, ("db", "eu")) == {"owner": "ana"}
    assert full.keyed() == keyed
    assert listed(full) == []


def test_a_table_brought_back_alone_brings_its_namespace_with_its_properties(full: Lake) -> None:
    done = full.services.recursive_drops.drop(LAKE, DB)
    full.services.undrops.undrop(LAKE, next(relation.id for relation in done.dropped if relation.name == "db.eu.t"))
    assert full.services.namespaces.properties(LAKE, ("db", "eu")) == {"owner": "ana"}
    assert done.id is not None
    assert len(full.services.undrops.undrop(LAKE, done.id).restored) == 3


def test_a_dry_run_names_what_would_go_and_drops_nothing(full: Lake) -> None:
    would = full.services.recursive_drops.drop(LAKE, DB, dry_run=True)
    assert len(would.dropped) == 4
    assert full.services.namespaces.exists(LAKE, DB)
    assert listed(full) == []


def test_a_namespace_that_is_not_empty_is_dropped_on_request_only(full: Lake) -> None:
    with pytest.raises(NamespaceNotEmpty):
        full.services.recursive_drops.drop(LAKE, DB, recursive=False)
    with pytest.raises(NoSuchNamespace):
        full.services.recursive_drops.drop(LAKE, ("none",))


def test_everything_that_is_protected_is_named_and_nothing_is_dropped(full: Lake) -> None:
    full.services.namespaces.protect(LAKE, ("db", "eu"), protected=True)
    for name in (PLAIN, ORDERS, VIEW):
        full.services.protect(LAKE, name, protected=True)
    with pytest.raises(Protected, match=r"namespace db\.eu, db\.orders, db\.plain, db\.v"):
        full.services.recursive_drops.drop(LAKE, DB)
    assert listed(full) == []
    assert full.keyed().pending_commits == 1


@pytest.mark.parametrize("name", [PLAIN, ORDERS, VIEW])
def test_what_is_protected_is_dropped_once_it_is_no_more(full: Lake, name: TableName) -> None:
    full.services.protect(LAKE, name, protected=True)
    with pytest.raises(Protected, match="protected") as refused:
        full.services.drop(LAKE, name)
    assert f"firn table unprotect {name}" in (refused.value.hint or "")
    full.services.protect(LAKE, name, protected=False)
    full.services.drop(LAKE, name)
    assert listed(full)[0].name == str(name)


def test_a_protected_namespace_is_not_dropped_even_when_it_is_empty(lake: Lake) -> None:
    lake.services.namespaces.protect(LAKE, DB, protected=True)
    with pytest.raises(Protected):
        lake.services.namespaces.drop(LAKE, DB)
    lake.services.namespaces.protect(LAKE, DB, protected=False)
    lake.services.namespaces.drop(LAKE, DB)


def test_a_job_on_one_of_its_tables_ends_with_it(full: Lake) -> None:
    lease = full.lease(JobKind.MERGE)
    full.services.recursive_drops.drop(LAKE, DB)
    assert full.job(lease).status is JobStatus.CANCELED


def test_more_than_one_transaction_should_drop_is_refused(full: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.service.drop.recursive_drop.MOST", 3)
    with pytest.raises(Conflict, match="more than 3"):
        full.services.recursive_drops.drop(LAKE, DB)


def test_where_nothing_is_kept_there_is_nothing_to_bring_back(full: Lake) -> None:
    keep(full, "0")
    assert full.services.recursive_drops.drop(LAKE, DB).id is None
    assert listed(full) == []


def test_a_name_that_is_taken_meanwhile_keeps_the_whole_namespace_dropped(full: Lake) -> None:
    done = full.services.recursive_drops.drop(LAKE, DB)
    full.services.namespaces.ensure(LAKE, DB)
    full.create()
    assert done.id is not None
    with pytest.raises(Conflict, match=r"db\.plain cannot come back"):
        full.services.undrops.undrop(LAKE, done.id)
    assert len(listed(full)) == 5
