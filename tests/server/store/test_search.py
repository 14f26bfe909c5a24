"""The search index in both databases: what it finds, what it writes, and texts that try to be syntax."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from catalog.access.privileges import Securable
from catalog.names import CatalogName, RelationId
from catalog.ports.search import FoundDocument, SearchScope
from catalog.ports.store import Database
from catalog.search.document import ColumnText, DocumentKind, SearchDocument, Texts
from catalog.search.matching import Typed
from catalog.search.words import split_typed

LAKE, POND = CatalogName("lake"), CatalogName("pond")
EVERYWHERE = SearchScope(kinds=tuple(DocumentKind), within=None)
AMOUNT = ColumnText("amount", "gross, in cents")


def a_document(name: str = "orders", *, namespace: tuple[str, ...] = ("sales",), **more: object) -> SearchDocument:
    values: dict[str, object] = {"kind": DocumentKind.TABLE, "catalog": LAKE, "key": uuid4().hex, **more}
    described = {key: values.pop(key) for key in ("comment", "owner", "labels", "columns") if key in values}
    texts = Texts(**({"columns": [AMOUNT]} | described))  # type: ignore[arg-type]
    return SearchDocument(namespace=namespace, name=name, described=texts, **values)  # type: ignore[arg-type]


def names(documents_found: Sequence[FoundDocument], *documents: SearchDocument) -> set[str]:
    by_key = {document.key: document.name for document in documents}
    return {by_key[document.key] for document in documents_found}


@pytest.fixture
def documents(database: Database) -> list[SearchDocument]:
    saved = [
        a_document("orders"),
        a_document("Order_Items", namespace=("sales", "eu")),
        a_document("Ärger-注文", namespace=("日本",), comment="Bestellungen – सभी"),
        a_document("orders", catalog=POND, columns=[]),
        a_document("customers", kind=DocumentKind.VIEW, columns=[ColumnText("order_count")]),
        a_document("legacy_orders", kind=DocumentKind.HIVE_TABLE, key="old.legacy_orders", namespace=("old",)),
    ]
    with database.writing() as uow:
        assert uow.search_index.put(saved) == len(saved)
    return saved


def test_words_find_documents_by_names_and_by_columns_and_comments(
    database: Database, documents: list[SearchDocument]
) -> None:
    with database.reading() as uow:
        index = uow.search_index

        def by_names(text: str) -> set[str]:
            return names(index.by_name_words(split_typed(text), EVERYWHERE, limit=50), *documents)

        assert by_names("ord") == {"orders", "Order_Items", "legacy_orders"}
        assert by_names("order items") == by_names("IT eu-ORD") == {"Order_Items"}
        assert by_names("rders") == by_names("amount") == set()
        assert by_names("ärg") == by_names("A\u0308RG") == by_names("注文") == by_names("日本") == {"Ärger-注文"}
        everything = {"orders", "Order_Items", "Ärger-注文", "legacy_orders"}
        assert names(index.by_other_words(["gro", "cents"], EVERYWHERE, limit=50), *documents) == everything
        assert names(index.by_other_words(split_typed("सभी"), EVERYWHERE, limit=50), *documents) == {"Ärger-注文"}
        both = index.by_any_words(["items", "amount"], EVERYWHERE, limit=50)
        expected = [
            FoundDocument(kind=DocumentKind.TABLE, catalog=LAKE, key=documents[1].key, texts=documents[1].texts)
        ]
        assert both == expected
        assert names(index.by_exact_name("orders", EVERYWHERE, limit=50), *documents) == {"orders"}
        beginning = index.by_beginning("order", EVERYWHERE, limit=50)
        assert beginning[0].key == documents[1].key
        assert len(index.by_name_words(["o"], EVERYWHERE, limit=2)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"',
        "*",
        "NEAR",
        "a OR b",
        "-orders",
        "orders*",
        "^orders",
        "'",
        "\\",
        "a\x00b",
        "name_words:x",
        ":*",
        "{",
        "&|!<->",
    ],
)
def test_no_text_is_syntax(database: Database, documents: list[SearchDocument], text: str) -> None:
    with database.reading() as uow:
        for find in (uow.search_index.by_name_words, uow.search_index.by_other_words, uow.search_index.by_any_words):
            documents_found = find(split_typed(text * 3 + " orders"), EVERYWHERE, limit=50)
            assert names(documents_found, *documents) <= {"orders", "legacy_orders"}
        uow.search_index.by_beginning(Typed.parse(text).text, EVERYWHERE, limit=50)


def test_a_scope_leaves_out_other_places(database: Database, documents: list[SearchDocument]) -> None:
    def search(*within: Securable, kinds: tuple[DocumentKind, ...] = tuple(DocumentKind)) -> set[str]:
        scope = SearchScope(kinds=kinds, within=within)
        with database.reading() as uow:
            return names(uow.search_index.by_any_words(["order"], scope, limit=50), *documents)

    assert search() == set()
    assert search(Securable(POND)) == {"orders"}
    assert search(Securable(LAKE, ("sales",))) == {"orders", "Order_Items", "customers"}
    assert search(Securable(LAKE, ("sal",))) == set()
    assert search(Securable(LAKE, ("sales",), "orders")) == {"orders"}
    assert search(Securable(LAKE), kinds=(DocumentKind.HIVE_TABLE,)) == {"legacy_orders"}
    assert search(Securable(LAKE), kinds=()) == set()


def test_only_documents_that_differ_are_written_and_their_old_words_are_gone(
    database: Database, documents: list[SearchDocument]
) -> None:
    first = documents[0]
    renamed = a_document("bills", key=first.key, source="2", columns=[ColumnText("net")])
    with database.writing() as uow:
        assert uow.search_index.put(documents) == 0
        assert uow.search_index.put([renamed, *documents[1:]]) == 1
        assert uow.search_index.sources([RelationId(UUID(first.key))]) == {RelationId(UUID(first.key)): "2"}
        index = uow.search_index
        assert names(index.by_name_words(["bills"], EVERYWHERE, limit=50), renamed) == {"bills"}
        keys = [document.key for document in index.by_any_words(["amount"], EVERYWHERE, limit=50)]
        assert first.key not in keys
        index.remove(DocumentKind.TABLE, None, [first.key])
        assert not index.by_exact_name("bills", EVERYWHERE, limit=50)
        assert not index.by_other_words(["net"], EVERYWHERE, limit=50)


def test_hive_documents_belong_to_their_catalog(database: Database, documents: list[SearchDocument]) -> None:
    hive = documents[-1]
    other = a_document(hive.name, kind=DocumentKind.HIVE_TABLE, key=hive.key, namespace=("old",), catalog=POND)
    with database.writing() as uow:
        index = uow.search_index
        assert index.put([other]) == 1
        assert index.hive_digests(LAKE, "old") == {hive.key: hive.digest}
        assert set(index.hive_catalogs()) == {LAKE, POND}
        assert set(index.hive_databases(LAKE)) == {"old"}
        index.remove(DocumentKind.HIVE_TABLE, LAKE, [hive.key])
        assert not index.hive_digests(LAKE, "old")
        assert index.hive_digests(POND, "old") == {hive.key: other.digest}


def test_texts_that_a_database_might_refuse_are_stored(database: Database) -> None:
    long = a_document("n" * 512, namespace=("ü" * 500,), columns=[ColumnText("c" * 512, "x " * 500)] * 100)
    with database.writing() as uow:
        assert uow.search_index.put([long]) == 1
        uow.search_index.set_position("round", "a")
        uow.search_index.set_position("round", "b")
        assert uow.search_index.position("round") == "b"
        assert uow.search_index.position("events") is None
        assert len(uow.search_index.by_exact_name("n" * 512, EVERYWHERE, limit=5)) == 1
        assert uow.search_index.leftovers(limit=10) == [UUID(long.key)]
