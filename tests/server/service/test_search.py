"""The task that fills the search index, and what a search finds: tables as they are now, and objects beside them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from catalog.names import CatalogName, TableName
from catalog.search.document import DocumentKind
from catalog.tables.relation import Pointer
from firn.protocol.search import SearchKind
from server.service.access.visibility import Visibility
from server.service.hive.table_index import HiveIndex
from server.service.search import indexing
from server.service.search.search import SearchRequest
from server.service.tables.views import ViewDefinition
from tests.factories import LAKE, NOW, a_catalog, a_relation
from tests.hive_tables import a_hive_table
from tests.server.faults import Killed
from tests.server.guarded import SQL
from tests.server.lake import COLUMNS, ORDERS, PLAIN, Lake, altered, definition, set_property
from tests.server.metastore.fake import FakeMetastore
from tests.server.service.hive.mortal import OneMetastore

EVERYBODY = Visibility(None)
POND = CatalogName("pond")
CUSTOMERS = TableName(("crm",), "customers")
BILL = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "amount", "type": "long", "required": False, "doc": "gross,\n in cents \x00"},
        {
            "id": 3,
            "name": "address",
            "type": {
                "type": "list",
                "element-id": 4,
                "element-required": False,
                "element": {
                    "type": "struct",
                    "fields": [{"id": 5, "name": "zip_code", "type": "string", "required": False}],
                },
            },
            "required": False,
        },
    ],
}


def find(lake: Lake, text: str, **more: Any) -> list[tuple[str, str, str]]:
    hits = lake.services.search.run(SearchRequest(text=text, visible=EVERYBODY, owner=None, **more))
    return [(hit.kind, hit.name, hit.text) for hit in hits if hit.kind not in (SearchKind.SETTING, SearchKind.JOB)]


def index(lake: Lake) -> indexing.SearchStatus:
    return lake.services.search_indexing.run_once()


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.create(PLAIN)
    lake.create_keyed(ORDERS)
    lake.services.namespaces.create(LAKE, ("crm",), {})
    lake.services.tables.create(LAKE, replace(definition(CUSTOMERS, comment="People who pay"), schema=BILL))
    lake.services.views.create(LAKE, ViewDefinition(name=TableName(("crm",), "paying"), schema=COLUMNS, version=SQL))
    status = index(lake)
    assert (status.written, status.unreadable) == (4, 0)
    return lake


def test_it_finds_names_columns_and_comments(filled: Lake) -> None:
    assert find(filled, "customers") == [("table", "crm.customers", "")]
    assert find(filled, "CRM.Cust") == [("table", "crm.customers", "")]
    assert find(filled, "cents") == [("table", "crm.customers", 'column amount: "gross, in cents"')]
    assert find(filled, "cust amount") == [("table", "crm.customers", 'column amount: "gross, in cents"')]
    assert find(filled, "zip") == [("table", "crm.customers", "column address.zip_code")]
    assert find(filled, "who pay") == [("table", "crm.customers", 'comment: "People who pay"')]
    assert ("view", "crm.paying", "") in find(filled, "pay")
    assert find(filled, "orders") == [("table", "db.orders", "")]
    assert find(filled, "base") == []
    assert find(filled, "amount", kinds=[SearchKind.VIEW]) == []
    assert find(filled, "amount", catalog=POND) == []
    assert find(filled, "amount", catalog=LAKE) == find(filled, "amount")


def test_nothing_is_written_for_what_is_indexed_already(filled: Lake) -> None:
    assert index(filled) == indexing.SearchStatus()  # no commit since
    filled.append(PLAIN)
    assert index(filled).written == 0
    with filled.database.writing() as uow:
        uow.search_index.set_position("round", "")
    assert index(filled) == indexing.SearchStatus(compared=4)


def test_a_commit_of_a_schema_a_property_and_a_name_is_found_by_the_next_run(filled: Lake) -> None:
    schema = {
        **COLUMNS,
        "fields": [*COLUMNS["fields"], {"id": 9, "name": "discount", "type": "int", "required": False}],
    }
    add = [
        {"action": "add-schema", "schema": schema, "last-column-id": 9},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    filled.commit(altered(PLAIN, *add))
    filled.commit(altered(CUSTOMERS, set_property("comment", "Clients")))
    filled.services.tables.rename(LAKE, PLAIN, TableName(("db",), "renamed"))
    assert find(filled, "discount") == []
    assert find(filled, str(PLAIN.name)) == []  # the index has the old name, which leads nowhere
    assert index(filled).written == 2
    assert find(filled, "discount") == [("table", "db.renamed", "column discount")]
    assert find(filled, "clients") == [("table", "crm.customers", 'comment: "Clients"')]
    assert find(filled, "renamed") == [("table", "db.renamed", "")]


def test_a_dropped_table_is_gone_at_once_and_found_again_after_undrop(filled: Lake) -> None:
    dropped = filled.services.tables.drop(LAKE, CUSTOMERS)
    assert find(filled, "customers") == []
    index(filled)
    with filled.database.reading() as uow:
        assert not uow.search_index.leftovers(limit=9)
    filled.services.undrops.undrop(LAKE, dropped.id)
    index(filled)
    assert find(filled, "zip") == [("table", "crm.customers", "column address.zip_code")]


def test_a_run_that_dies_is_completed_by_the_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "BATCH", 2)
    monkeypatch.setattr(indexing, "COMPARED", 3)
    for number in range(7):
        lake.create(TableName(("db",), f"t_{number}"))
    for number in range(12):
        (lake.database.kill_before_commit, lake.database.kill_after_commit)[number % 3 > 0]()
        with suppress(Killed):
            index(lake)
    lake.database.works_again()
    index(lake)
    assert [name for _, name, _ in find(lake, "t")] == [f"db.t_{number}" for number in range(7)]


def test_hive_tables_follow_the_metastore_until_they_are_upgraded(lake: Lake) -> None:
    metastore = FakeMetastore()
    for database in ("old", "gone"):
        metastore.add_database(database)
        table = a_hive_table(database=database, name="invoices", parameters={"comment": "Paper ones"})
        metastore.add_table(table)
    with lake.database.writing() as uow:
        uow.catalogs.add(a_catalog(name=POND, metastore_uri="thrift://fake:9083"))
    hive = HiveIndex(lake.services.database, OneMetastore(metastore))
    hive.activate()
    assert find(lake, "invoices") == [("hive_table", "old.invoices", ""), ("hive_table", "gone.invoices", "")]
    assert find(lake, "paper", catalog=POND)[0] == ("hive_table", "old.invoices", 'comment: "Paper ones"')
    with lake.database.reading() as uow:
        before = uow.search_index.hive_digests(POND, "old")
    hive.activate()
    with lake.database.reading() as uow:
        assert uow.search_index.hive_digests(POND, "old") == before
    metastore.drop_table("gone", "invoices")
    lake.services.tables.create(LAKE, definition(TableName(("db",), "invoices")))
    with lake.database.writing() as uow:
        upgraded = a_relation(catalog=POND, name=TableName(("old",), "renamed"), hive_name="old.invoices")
        uow.relations.add(upgraded)
    hive.activate()
    assert find(lake, "invoices", kinds=[SearchKind.HIVE_TABLE]) == []
    with lake.database.writing() as uow:
        assert not uow.search_index.hive_digests(POND, "gone")
        uow.catalogs.remove(POND)
    index(lake)
    with lake.database.reading() as uow:
        assert not uow.search_index.hive_catalogs()


def test_a_table_without_readable_metadata_is_found_by_its_name(filled: Lake) -> None:
    with filled.database.writing() as uow:
        relation = uow.relations.find(LAKE, CUSTOMERS)
        assert relation is not None
        assert uow.relations.move_pointer(relation, Pointer(f"{relation.location}/no.json", relation.location), NOW)
        uow.search_index.set_position("round", "")
        uow.search_index.remove(DocumentKind.TABLE, None, [relation.id.hex])
    assert index(filled).unreadable == 1
    assert find(filled, "customers") == [("table", "crm.customers", "")]
    assert find(filled, "zip") == []
