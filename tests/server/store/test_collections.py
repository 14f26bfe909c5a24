"""Each collection of the unit of work, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from catalog.commits.writers import Writer
from catalog.errors import (
    AlreadyExists,
    Conflict,
    DuplicateBatch,
    NamespaceNotEmpty,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
)
from catalog.keyed.spec import Version
from catalog.names import CatalogName, Namespace, RelationId, TableName
from catalog.ports.idempotency import StoredResponse
from catalog.ports.store import Database
from catalog.tables.relation import MetastoreDown, Pointer, RelationKind, TableStats
from firn.protocol.operations import OperationKind, OperationStatus
from tests.factories import (
    LAKE,
    LATER,
    NOW,
    ORDERS,
    a_catalog,
    a_keyed_table,
    a_relation,
    an_event,
    an_operation,
)


def test_a_catalog_comes_back_as_it_was_added(database: Database) -> None:
    catalog = a_catalog(metastore_uri="thrift://hive:9083", properties={"a": "ü"})
    with database.writing() as uow:
        uow.catalogs.add(catalog)
    with database.reading() as uow:
        assert uow.catalogs.get(LAKE) == catalog
        assert uow.catalogs.list() == [catalog]


def test_catalog_names_are_taken_once_and_the_transaction_goes_on(database: Database) -> None:
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        with pytest.raises(AlreadyExists, match="lake"):
            uow.catalogs.add(a_catalog())
        uow.catalogs.add(a_catalog(name=CatalogName("pond")))
    with database.reading() as uow:
        assert [catalog.name for catalog in uow.catalogs.list()] == ["lake", "pond"]


def test_a_metastore_is_away_since_the_first_time_and_for_its_newest_reason(database: Database) -> None:
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        uow.catalogs.add(a_catalog(name=CatalogName("pond")))
    for reason, now in (("refused", NOW), ("timed out", LATER), ("timed out", LATER)):
        with database.writing() as uow:
            uow.catalogs.note_metastore_down(LAKE, reason, now)
    with database.reading() as uow:
        assert [catalog.metastore_down for catalog in uow.catalogs.list()] == [
            MetastoreDown(since=NOW, reason="timed out"),
            None,
        ]
    with database.writing() as uow:
        uow.catalogs.note_metastore_down(LAKE, None, LATER)
    with database.reading() as uow:
        assert uow.catalogs.get(LAKE).metastore_down is None


def test_a_catalog_with_namespaces_stays(database: Database) -> None:
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        uow.namespaces.add(LAKE, ("db",), {})
        with pytest.raises(Conflict, match="namespaces"):
            uow.catalogs.remove(LAKE)
        uow.namespaces.remove(LAKE, ("db",))
        uow.catalogs.remove(LAKE)
        with pytest.raises(NoSuchCatalog):
            uow.catalogs.get(LAKE)


def test_children_are_the_next_level_only_and_tell_case_apart(database: Database) -> None:
    """SQLite's LIKE took `Db` and `db` for the same."""
    namespaces: list[Namespace] = [("Db",), ("db",), ("db", "a"), ("db", "a", "deep"), ("db%",), ("d_", "x"), ("d_",)]
    with database.writing() as uow:
        for namespace in namespaces:
            uow.namespaces.add(LAKE, namespace, {})

        def children(*parent: str) -> set[Namespace]:
            return set(uow.namespaces.children(LAKE, parent, limit=10).items)

        assert children() == {("Db",), ("db",), ("db%",), ("d_",)}
        assert children("db") == {("db", "a")}
        assert children("Db") == set()
        assert children("d_") == {("d_", "x")}
        uow.namespaces.remove(LAKE, ("Db",))
        with pytest.raises(NamespaceNotEmpty):
            uow.namespaces.remove(LAKE, ("db",))


def test_pages_of_namespaces_go_on_where_they_stopped(database: Database) -> None:
    with database.writing() as uow:
        for number in range(7):
            uow.namespaces.add(LAKE, (f"n{number}",), {})
        listed, cursor = [], None
        while True:
            page = uow.namespaces.children(LAKE, (), limit=3, cursor=cursor)
            listed.append([relation[0] for relation in page.items])
            cursor = page.next_cursor
            if cursor is None:
                break
    assert listed == [["n0", "n1", "n2"], ["n3", "n4", "n5"], ["n6"]]


def test_properties_of_a_namespace_are_replaced_whole(database: Database) -> None:
    with database.writing() as uow:
        uow.namespaces.add(LAKE, ("db",), {"a": "1", "b": "2"})
        uow.namespaces.set_properties(LAKE, ("db",), {"b": "3"})
        assert uow.namespaces.properties(LAKE, ("db",)) == {"b": "3"}
        with pytest.raises(NoSuchNamespace):
            uow.namespaces.set_properties(LAKE, ("nope",), {})


def test_a_relation_comes_back_as_it_was_added(database: Database) -> None:
    relation = a_relation(name=TableName(("a.b", "ü"), "with space"), hive_name="db.orders")
    with database.writing() as uow:
        uow.relations.add(relation)
    with database.reading() as uow:
        assert uow.relations.get(relation.id) == relation
        assert uow.relations.find(LAKE, relation.name) == relation
        assert uow.relations.linked_to_hive(LAKE) == [relation]


def test_a_name_is_taken_whatever_holds_it(database: Database) -> None:
    with database.writing() as uow:
        uow.relations.add(a_relation(kind=RelationKind.VIEW))
        with pytest.raises(AlreadyExists, match=r"View with same name already exists: db\.orders"):
            uow.relations.add(a_relation())


def test_relations_are_listed_by_kind_namespace_and_part_of_name(database: Database) -> None:
    with database.writing() as uow:
        for name, kind in (("Orders", RelationKind.TABLE), ("orders_2", RelationKind.VIEW), ("x", RelationKind.TABLE)):
            uow.relations.add(a_relation(name=TableName(("db",), name), kind=kind))
        uow.relations.add(a_relation(name=TableName(("other",), "orders")))

        def names(**wanted: object) -> list[str]:
            page = uow.relations.list(LAKE, limit=10, **wanted)  # type: ignore[arg-type]
            return sorted(str(relation.name) for relation in page.items)

        tables = [RelationKind.TABLE]
        assert names(namespace=("db",), kinds=tables) == ["db.Orders", "db.x"]
        assert names(namespace=None, kinds=tables, search="ORD") == ["db.Orders", "other.orders"]
        assert names(namespace=None, kinds=list(RelationKind), search="s_2") == ["db.orders_2"]
        assert names(namespace=None, kinds=list(RelationKind), search="s%") == []
        assert names(namespace=None, kinds=tables, search="r.ord") == ["other.orders"]


def test_pages_of_relations_hold_each_once(database: Database) -> None:
    expected = [TableName((namespace,), f"t{number}") for namespace in ("a", "b") for number in range(5)]
    with database.writing() as uow:
        for name in reversed(expected):
            uow.relations.add(a_relation(name=name))
        names, cursor = [], None
        while True:
            page = uow.relations.list(LAKE, None, [RelationKind.TABLE], limit=3, cursor=cursor)
            names += [relation.name for relation in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
    assert names == expected


def test_a_pointer_moves_only_from_the_version_that_was_read(database: Database) -> None:
    relation = a_relation()
    with database.writing() as uow:
        uow.relations.add(relation)
        assert uow.relations.move_pointer(relation, Pointer("file:/m/1", "file:/t"), LATER)
        assert not uow.relations.move_pointer(relation, Pointer("file:/m/2", "file:/t"), LATER)
        now = uow.relations.get(relation.id)
    assert (now.metadata_location, now.version, now.updated_at) == ("file:/m/1", 1, LATER)


def test_a_rename_keeps_a_commit_that_landed_after_the_table_was_read(database: Database) -> None:
    """It wrote back the whole row as it had been read, and the acknowledged commit was lost."""
    relation, to = a_relation(), TableName(("db",), "renamed")
    with database.writing() as uow:
        uow.relations.add(relation)
        uow.relations.move_pointer(relation, Pointer("file:/m/1", "file:/t"), LATER)
        uow.relations.rename(relation, to)
        renamed = uow.relations.find(LAKE, to)
        assert uow.relations.find(LAKE, relation.name) is None
    assert renamed is not None
    assert (renamed.id, renamed.metadata_location, renamed.version) == (relation.id, "file:/m/1", 1)


def test_a_rename_to_a_taken_name_changes_nothing(database: Database) -> None:
    relation, other = a_relation(), a_relation(name=TableName(("db",), "other"))
    with database.writing() as uow:
        uow.relations.add(relation)
        uow.relations.add(other)
        with pytest.raises(AlreadyExists, match=r"Table already exists: db\.other"):
            uow.relations.rename(relation, other.name)
        assert uow.relations.find(LAKE, ORDERS) == relation


def test_stats_are_zeros_until_they_are_put(database: Database) -> None:
    relation_id = RelationId(uuid4())
    full = TableStats(
        relation_id=relation_id,
        snapshot_id=2**62,
        records=2**40,
        last_commit_at=NOW,
        oldest_superseded_at=NOW,
        properties={"firn.primary-key": "id"},
    )
    with database.writing() as uow:
        assert uow.stats.get(relation_id) == TableStats(relation_id=relation_id)
        for stats in (TableStats(relation_id=relation_id, records=1), full):
            uow.stats.put(stats, plan_after=NOW)
            assert uow.stats.get(relation_id) == stats


def test_a_keyed_table_is_seen_as_it_was_last_put(database: Database) -> None:
    keyed = a_keyed_table()
    changed = a_keyed_table(relation_id=keyed.relation_id, pending_rows=5, pending_since=NOW, version=3, watermark=2)
    with database.writing() as uow:
        uow.keyed.add(keyed)
        assert uow.keyed.get(keyed.relation_id) == keyed
        uow.keyed.put(changed)
        assert uow.keyed.get(keyed.relation_id) == uow.keyed.lock(keyed.relation_id) == changed
        uow.keyed.remove(keyed.relation_id)
        for read in (uow.keyed.get, uow.keyed.lock):
            with pytest.raises(NoSuchTable):
                read(keyed.relation_id)


def test_versions_are_listed_newest_first_and_forgotten_by_snapshot(database: Database) -> None:
    relation_id = RelationId(uuid4())
    pairs = ((1, None, None), (2, None, 20), (3, 10, 20), (4, 10, 21))
    with database.writing() as uow:
        for number, base, change in pairs:
            version = Version(
                relation_id=relation_id,
                version=number,
                base_snapshot_id=base,
                change_snapshot_id=change,
                committed_at=NOW,
            )
            uow.keyed.add_version(version)
        assert [version.version for version in uow.keyed.versions(relation_id, limit=2)] == [4, 3]
        assert [version.version for version in uow.keyed.versions(relation_id, limit=9, before=3)] == [2, 1]
        uow.keyed.forget_versions(relation_id, base=[], change=[20])
        assert [version.version for version in uow.keyed.versions(relation_id, limit=9)] == [4, 1]


def test_a_writer_is_known_by_relation_and_name_and_goes_with_its_table(database: Database) -> None:
    mine, other = RelationId(uuid4()), RelationId(uuid4())
    writer = Writer(relation_id=mine, name="ü", epoch=1, registered_at=NOW)
    moved = replace(writer, epoch=2, position="t:0:5", committed_at=LATER, snapshot_id=7, registered_by="ann")
    with database.writing() as uow:
        assert uow.writers.add(writer)
        assert not uow.writers.add(moved)
        assert uow.writers.add(replace(writer, relation_id=other))
        assert uow.writers.lock(mine, "ü") == writer
        uow.writers.put(moved)
    with database.writing() as uow:
        assert uow.writers.find(mine, "ü") == uow.writers.lock(mine, "ü") == moved
        assert uow.writers.find(mine, "u") is uow.writers.lock(mine, "u") is None
        assert uow.writers.lock_all(mine) == uow.writers.list(mine, limit=5).items == [moved]
        uow.dropped.delete_state(mine)
        assert (uow.writers.count(mine), uow.writers.count(other)) == (0, 1)


def test_a_batch_is_known_by_relation_writer_and_batch(database: Database) -> None:
    event = an_event(snapshot_id=7, writer_id="w", batch_id="b", summary={"operation": "append"})
    with database.writing() as uow:
        uow.events.add(event)
        with pytest.raises(DuplicateBatch, match="snapshot 7"):
            uow.events.add(an_event(relation_id=event.relation_id, snapshot_id=8, writer_id="w", batch_id="b"))
        uow.events.add(an_event(writer_id="w", batch_id="b"))
        uow.events.add(an_event(relation_id=event.relation_id, writer_id="w"))
        uow.events.add(an_event(relation_id=event.relation_id, writer_id="w"))
        recorded = uow.events.find_batch(event.relation_id, "w", "b")
        by_snapshot = uow.events.of_snapshots(event.relation_id, [7, 8])
    assert recorded is not None
    assert (recorded.snapshot_id, dict(recorded.summary)) == (7, {"operation": "append"})
    assert by_snapshot == {7: recorded}


def test_pending_counts_appends_above_the_watermark_only(database: Database) -> None:
    change_id = RelationId(uuid4())
    commits = ((1, "append", 10), (2, "append", 20), (3, "delete", 0), (4, "append", 40), (None, "alter", 0))
    with database.writing() as uow:
        assert uow.events.pending(change_id, above=0) == (0, 0, 0, None)
        for sequence, operation, rows in commits:
            uow.events.add(
                an_event(
                    relation_id=change_id,
                    sequence_number=sequence,
                    operation=operation,
                    added_rows=rows,
                    added_bytes=rows * 100,
                    committed_at=NOW + timedelta(seconds=sequence or 0),
                )
            )
        uow.events.add(an_event(sequence_number=9, added_rows=99))
        assert uow.events.pending(change_id, above=1) == (60, 6000, 2, NOW + timedelta(seconds=2))
        assert uow.events.pending(change_id, above=4) == (0, 0, 0, None)


def test_events_are_listed_newest_first_in_pages(database: Database) -> None:
    ids = [RelationId(uuid4()), RelationId(uuid4())]
    with database.writing() as uow:
        assert uow.events.last_id() == 0
        for number in range(5):
            uow.events.add(an_event(relation_id=ids[number % 2], snapshot_id=number))
        first = uow.events.list(LAKE, None, limit=3)
        second = uow.events.list(LAKE, None, limit=3, cursor=first.next_cursor)
        assert [event.snapshot_id for event in [*first.items, *second.items]] == [4, 3, 2, 1, 0]
        assert second.next_cursor is None
        assert [event.snapshot_id for event in uow.events.list(None, [ids[1]], limit=9).items] == [3, 1]
        assert uow.events.last_id() == first.items[0].id


def test_old_checks_are_forgotten(database: Database) -> None:
    kept = [
        an_operation(kind=OperationKind.CHECK, status=OperationStatus.SUCCEEDED, ended_at=LATER),
        an_operation(kind=OperationKind.CHECK),
        an_operation(status=OperationStatus.SUCCEEDED, ended_at=NOW),
    ]
    old = an_operation(kind=OperationKind.CHECK, status=OperationStatus.SUCCEEDED, ended_at=NOW)
    with database.writing() as uow:
        uow.operations.add_all([*kept, old])
        assert uow.operations.forget_checks(LATER) == 1
        assert {operation.id for operation in uow.operations.list(limit=9).items} == {
            operation.id for operation in kept
        }


def test_policies_belong_to_one_scope(database: Database) -> None:
    with database.writing() as uow:
        uow.policies.put(LAKE, (), {"a": "1"})
        uow.policies.put(LAKE, ("db",), {"a": "2"})
        uow.policies.put(LAKE, ("db",), {"b": "3"})
        assert uow.policies.get(LAKE, ()) == {"a": "1"}
        assert uow.policies.get(LAKE, ("db",)) == {"b": "3"}
        assert uow.policies.get(LAKE, ("db", "x")) == {}


@pytest.mark.parametrize("depth", [1, 2, 4, 7])
def test_policies_of_all_scopes_of_a_table_come_at_once(database: Database, depth: int) -> None:
    """Up to three levels of namespaces one statement serves all tables; deeper ones and two catalogs have another."""
    other = CatalogName("other")
    namespaces = [tuple("abcdefg"[:length]) for length in range(depth)]
    wanted = {(LAKE, namespace): {"depth": str(len(namespace))} for namespace in namespaces}
    with database.writing() as uow:
        for (catalog, namespace), settings in wanted.items():
            uow.policies.put(catalog, namespace, settings)
        uow.policies.put(LAKE, ("b",), {"of": "nobody"})
        uow.policies.put(other, (), {"of": "another catalog"})
        assert uow.policies.get_many(wanted) == wanted
        assert uow.policies.get_many([*wanted, (LAKE, ("'; --",))]) == wanted
        assert len(uow.policies.get_many([*wanted, (other, ())])) == depth + 1
        assert uow.policies.get_many([]) == {}


def test_an_answer_is_kept_once_and_forgotten_by_age(database: Database) -> None:
    answer = StoredResponse(key="k", fingerprint="f", status=200, body=b"\x00\xff", created_at=NOW)
    with database.writing() as uow:
        uow.idempotency_keys.add(answer)
        with pytest.raises(Conflict):
            uow.idempotency_keys.add(answer)
        assert uow.idempotency_keys.find("k") == answer
        assert uow.idempotency_keys.remove_before(NOW) == 0
        assert uow.idempotency_keys.remove_before(LATER) == 1
        assert uow.idempotency_keys.find("k") is None


def test_one_server_leads_until_its_claim_lapses(database: Database) -> None:
    with database.writing() as uow:
        assert uow.leaders.claim("a", now=NOW, until=LATER)
        assert not uow.leaders.claim("b", now=NOW, until=LATER)
        assert uow.leaders.claim("a", now=NOW, until=LATER + timedelta(minutes=1))
        assert not uow.leaders.claim("b", now=LATER, until=LATER + timedelta(minutes=5))
        after = LATER + timedelta(minutes=2)
        assert uow.leaders.claim("b", now=after, until=after)
        assert not uow.leaders.claim("a", now=NOW, until=LATER)
