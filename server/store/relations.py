"""Tables, views and keyed tables in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import cycle
from typing import Any, cast

from sqlalchemy import Integer, Table, bindparam, delete, func, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from catalog.errors import AlreadyExists, NoSuchTable
from catalog.keyed.spec import KeyedTable, KeyScope, KeySpec, Version
from catalog.names import (
    SEPARATOR,
    CatalogName,
    Namespace,
    RelationId,
    TableName,
    decode_namespace,
    encode_namespace,
    explain_name_clash,
)
from catalog.ports.page import Page
from catalog.tables.relation import ListedRelation, Pointer, Relation, RelationKind
from server.store import cursor as cursors
from server.store.catalogs import starts_with, unique_name
from server.store.prepared_statements import PreparedStatement
from server.store.rows import KeyedTableRow, RelationRow, VersionRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken, upsert

_PLAIN = tuple(f.name for f in fields(Relation) if f.name != "name")
_TABLE = cast("Table", RelationRow.__table__)
_IN_NAMESPACE = select(_TABLE).where(
    _TABLE.c.catalog == bindparam("catalog"), _TABLE.c.namespace == bindparam("namespace")
)
_FIND = PreparedStatement(_IN_NAMESPACE.where(_TABLE.c.name == bindparam("name")))
_HOLDER = PreparedStatement(_IN_NAMESPACE.where(_TABLE.c.folded == bindparam("folded")))
_GET = PreparedStatement(select(_TABLE).where(_TABLE.c.id == bindparam("id")))
_STORES = select(_TABLE).where(_TABLE.c.owner_id == bindparam("owner_id")).order_by(_TABLE.c.kind)
_KINDS = {str(kind): kind for kind in RelationKind}
_KIND_BINDS = [f"kind{number}" for number in range(len(_KINDS))]
_NAMES = PreparedStatement(
    select(_TABLE.c.name, _TABLE.c.kind)
    .where(
        _TABLE.c.catalog == bindparam("catalog"),
        _TABLE.c.namespace == bindparam("namespace"),
        _TABLE.c.kind.in_([bindparam(name) for name in _KIND_BINDS]),
        _TABLE.c.name > bindparam("after"),
    )
    .order_by(_TABLE.c.name)
    .limit(bindparam("most", type_=Integer))
)
_MOVED = ("metadata_location", "location", "former_locations", "version", "updated_at")
_MOVE = PreparedStatement(
    update(_TABLE)
    .where(_TABLE.c.id == bindparam("moved_id"), _TABLE.c.version == bindparam("seen_version"))
    .values({name: bindparam(name) for name in _MOVED})
    .returning(_TABLE.c.id)
)


@dataclass(frozen=True)
class SqlRelations:
    """See catalog.ports.relations.Relations."""

    session: ReadSession

    def add(self, relation: Relation) -> None:
        """Add a relation; AlreadyExists when any relation has the name."""
        values = to_values(relation) | {"folded": unique_name(self.session, relation.catalog, relation.name.name)}
        if not insert_unless_taken(self.session, RelationRow, values):
            raise self._describe_conflict(relation)

    def _describe_conflict(self, relation: Relation) -> AlreadyExists:
        holder = self.find_name_holder(relation.catalog, relation.name)
        holds_view = holder is not None and holder.kind is RelationKind.VIEW
        wants_view = relation.kind is RelationKind.VIEW
        same = "" if holds_view == wants_view else " with same name"
        message = f"{'View' if holds_view else 'Table'}{same} already exists: {relation.name}"
        return AlreadyExists(message, hint=None if holder is None else explain_name_clash(holder.name, relation.name))

    def get(self, relation_id: RelationId) -> Relation:
        """Get a relation; NoSuchTable."""
        row = _GET.first(self.session, {"id": relation_id})
        if row is None:
            raise NoSuchTable(f"table {relation_id} no longer exists")
        return to_relation(row)

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Relation]:
        """Get existing relations, in one query."""
        rows = self.session.scalars(select(RelationRow).where(RelationRow.id.in_(relation_ids)))
        return {RelationId(row.id): to_relation(row) for row in rows}

    def lock_existing(self, relation_ids: Collection[RelationId]) -> Collection[RelationId]:
        """Lock relations against removal and return them, without those being removed; commits can continue."""
        query = select(RelationRow.id).where(RelationRow.id.in_(relation_ids))
        shared = query.with_for_update(read=True, key_share=True, skip_locked=True)
        return {RelationId(key) for key in self.session.scalars(shared)}

    def lock_pointer(self, relation_id: RelationId) -> str | None:
        """The metadata location, which no commit moves until this transaction ends; None without one."""
        query = select(RelationRow.metadata_location).where(RelationRow.id == relation_id)
        return self.session.scalar(query.with_for_update(key_share=True))

    def find(self, catalog: CatalogName, name: TableName) -> Relation | None:
        """Find a relation by its full name."""
        values = {"catalog": catalog, "namespace": encode_namespace(name.namespace), "name": name.name}
        row = _FIND.first(self.session, values)
        return None if row is None else to_relation(row)

    def find_name_holder(self, catalog: CatalogName, name: TableName) -> Relation | None:
        """Find the relation with this name, or with one that differs only in case if the catalog ignores case."""
        values = {
            "catalog": catalog,
            "namespace": encode_namespace(name.namespace),
            "folded": unique_name(self.session, catalog, name.name),
        }
        row = _HOLDER.first(self.session, values)
        return None if row is None else to_relation(row)

    def stores_of(self, owner_id: RelationId) -> Sequence[Relation]:
        """List a keyed table's stores."""
        return [to_relation(row) for row in self.session.execute(_STORES, {"owner_id": owner_id})]

    def quarantines_of(self, owner_ids: Collection[RelationId]) -> Mapping[RelationId, RelationId]:
        """Find the quarantines of keyed tables, by the id of the table."""
        of_tables = RelationRow.owner_id.in_(owner_ids), RelationRow.kind == RelationKind.QUARANTINE
        rows = self.session.scalars(select(RelationRow).where(*of_tables))
        return {RelationId(row.owner_id): RelationId(row.id) for row in rows if row.owner_id is not None}

    def list(
        self,
        catalog: CatalogName,
        namespace: Namespace | None,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
        search: str | None = None,
    ) -> Page[Relation]:
        """List relations by namespace and name; `search` is a part of a full name, dots included."""
        query = select(RelationRow).where(RelationRow.catalog == catalog, RelationRow.kind.in_(kinds))
        if namespace is not None:
            query = query.where(RelationRow.namespace == encode_namespace(namespace))
        if search:
            full = func.replace(RelationRow.namespace, SEPARATOR, ".") + "." + RelationRow.name
            query = query.where(full.icontains(search, autoescape=True))
        if cursor is not None:
            after = cursors.decode_texts(cursor, 2)
            query = query.where(tuple_(RelationRow.namespace, RelationRow.name) > tuple_(*after))
        rows = self.session.scalars(query.order_by(RelationRow.namespace, RelationRow.name).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].namespace, rows[limit - 1].name) if len(rows) > limit else None
        return Page([to_relation(row) for row in rows[:limit]], more)

    def names(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page[ListedRelation]:
        """List the names and kinds of relations in a namespace, by name, without the other columns."""
        path = encode_namespace(namespace)
        _, after = ("", "") if cursor is None else cursors.decode_texts(cursor, 2)  # no name is empty
        values = {"catalog": catalog, "namespace": path, "after": after, "most": limit + 1}
        rows = _NAMES.all(self.session, values | dict(zip(_KIND_BINDS, cycle(kinds), strict=False)))
        more = cursors.encode(path, rows[limit - 1][0]) if len(rows) > limit else None
        return Page([ListedRelation(name, _KINDS[kind]) for name, kind in rows[:limit]], more)

    def below(self, catalog: CatalogName, namespace: Namespace, *, limit: int) -> Sequence[Relation]:
        """List the relations in a namespace and all namespaces below, by name, without stores."""
        path = encode_namespace(namespace)
        query = select(RelationRow).where(
            RelationRow.catalog == catalog,
            RelationRow.owner_id.is_(None),
            or_(RelationRow.namespace == path, starts_with(RelationRow.namespace, path + SEPARATOR)),
        )
        rows = self.session.scalars(query.order_by(RelationRow.namespace, RelationRow.name).limit(limit))
        return [to_relation(row) for row in rows]

    def linked_to_hive(self, catalog: CatalogName) -> Sequence[Relation]:
        """List the relations that are linked to Hive tables."""
        query = select(RelationRow).where(RelationRow.catalog == catalog, RelationRow.hive_name.is_not(None))
        return [to_relation(row) for row in self.session.scalars(query.order_by(RelationRow.hive_name))]

    def of_hives(self, catalog: CatalogName, hive_names: Collection[str]) -> Mapping[str, Relation]:
        """Find the relations that some of these Hive tables were upgraded to."""
        query = select(RelationRow).where(RelationRow.catalog == catalog, RelationRow.hive_name.in_(hive_names))
        relations = [to_relation(row) for row in self.session.scalars(query)]
        return {relation.hive_name: relation for relation in relations if relation.hive_name is not None}

    def of_hive(self, catalog: CatalogName, hive_name: str) -> Relation | None:
        """Find the relation that a Hive table was upgraded to."""
        query = select(RelationRow).where(RelationRow.catalog == catalog, RelationRow.hive_name == hive_name)
        row = self.session.scalars(query).first()
        return None if row is None else to_relation(row)

    def find_at(self, locations: Collection[str]) -> Sequence[Relation]:
        """List the relations of all catalogs at one of these locations."""
        query = select(RelationRow).where(RelationRow.location.in_(sorted(locations))).order_by(RelationRow.id)
        return [to_relation(row) for row in self.session.scalars(query)]

    def move_pointer(self, relation: Relation, to: Pointer, now: datetime) -> bool:
        """Move the metadata pointer, compare-and-set by version; remembers an old location, where older files stay."""
        previous = () if to.location == relation.location else (relation.location,)
        former = dict.fromkeys((*relation.former_locations, *previous, *to.also_at))
        moved = _MOVE.first(
            self.session,
            {
                "moved_id": relation.id,
                "seen_version": relation.version,
                "metadata_location": to.metadata_location,
                "location": to.location,
                "former_locations": list(former),
                "version": relation.version + 1,
                "updated_at": now,
            },
        )
        return moved is not None

    def rename(self, relation: Relation, to: TableName) -> None:
        """Rename a relation; AlreadyExists. Writes only the name, because a commit may have changed other columns."""
        renamed = update(RelationRow).where(RelationRow.id == relation.id).returning(RelationRow.id)
        unique = unique_name(self.session, relation.catalog, to.name)
        names = {"namespace": encode_namespace(to.namespace), "name": to.name, "folded": unique}
        try:
            with self.session.begin_nested():
                result = self.session.execute(renamed.values(**names))
                if result.scalar_one_or_none() is None:
                    raise NoSuchTable(f"Table does not exist: {relation.name}")
        except IntegrityError as error:
            raise self._describe_conflict(replace(relation, name=to)) from error


def to_values(relation: Relation) -> dict[str, Any]:
    """Convert a relation to column values, without the columns that only the table has."""
    values = {name: getattr(relation, name) for name in _PLAIN}
    named = {"namespace": encode_namespace(relation.name.namespace), "name": relation.name.name}
    return values | named | {"former_locations": list(relation.former_locations)}


def to_relation(row: Any) -> Relation:
    """Convert a row, or an object with the same attributes, to a relation."""
    return Relation(
        id=RelationId(row.id),
        catalog=CatalogName(row.catalog),
        name=TableName(decode_namespace(row.namespace), row.name),
        kind=RelationKind(row.kind),
        owner_id=None if row.owner_id is None else RelationId(row.owner_id),
        location=row.location,
        metadata_location=row.metadata_location,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        hive_name=row.hive_name,
        former_locations=tuple(row.former_locations),
    )


@dataclass(frozen=True)
class SqlKeyedTables:
    """See catalog.ports.relations.KeyedTables."""

    session: ReadSession

    def add(self, keyed: KeyedTable) -> None:
        """Store a new keyed table."""
        self.put(keyed)

    def get(self, relation_id: RelationId) -> KeyedTable:
        """NoSuchTable when it is gone."""
        keyed = self.get_many([relation_id]).get(relation_id)
        if keyed is None:
            raise NoSuchTable(f"keyed table {relation_id} does not exist any more")
        return keyed

    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, KeyedTable]:
        """The relations that exist, in one query."""
        rows = self.session.scalars(select(KeyedTableRow).where(KeyedTableRow.relation_id.in_(relation_ids)))
        return {RelationId(row.relation_id): _keyed(row) for row in rows}

    def lock(self, relation_id: RelationId) -> KeyedTable:
        """Its current row, kept from changing until this transaction ends (SQLite's writers are alone anyway)."""
        query = select(KeyedTableRow).where(KeyedTableRow.relation_id == relation_id).with_for_update()
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise NoSuchTable(f"keyed table {relation_id} does not exist any more")
        return _keyed(row)

    def put(self, keyed: KeyedTable) -> None:
        """Insert or replace."""
        values = {
            "relation_id": keyed.relation_id,
            "primary_key": list(keyed.spec.primary_key),
            "sequence_field": keyed.spec.sequence_field,
            "scope": keyed.spec.scope,
            "is_insert_only": keyed.spec.is_insert_only,
            "base_id": keyed.base_id,
            "change_id": keyed.change_id,
            "watermark": keyed.watermark,
            "change_sequence": keyed.change_sequence,
            "pending_rows": keyed.pending_rows,
            "pending_bytes": keyed.pending_bytes,
            "pending_commits": keyed.pending_commits,
            "pending_since": keyed.pending_since,
            "version": keyed.version,
        }
        upsert(self.session, KeyedTableRow, values)

    def remove(self, relation_id: RelationId) -> None:
        """Forget it and its versions."""
        self.session.execute(delete(KeyedTableRow).where(KeyedTableRow.relation_id == relation_id))
        self.session.execute(delete(VersionRow).where(VersionRow.relation_id == relation_id))

    def add_version(self, version: Version) -> None:
        """Note a pair of heads."""
        self.session.add(VersionRow(**{name: getattr(version, name) for name in Version.__slots__}))
        self.session.flush()

    def versions(self, relation_id: RelationId, *, limit: int, before: int | None = None) -> Sequence[Version]:
        """Newest first."""
        query = select(VersionRow).where(VersionRow.relation_id == relation_id)
        if before is not None:
            query = query.where(VersionRow.version < before)
        rows = self.session.scalars(query.order_by(VersionRow.version.desc()).limit(limit))
        return [_to_version(row) for row in rows]

    def versions_between(self, relation_id: RelationId, first: int, last: int) -> Sequence[Version]:
        """List the versions with numbers from `first` to `last`, oldest first."""
        query = select(VersionRow).where(VersionRow.relation_id == relation_id, VersionRow.version.between(first, last))
        return [_to_version(row) for row in self.session.scalars(query.order_by(VersionRow.version))]

    def version_at(self, relation_id: RelationId, at: datetime) -> Version | None:
        """Find the newest version that was committed by then."""
        query = select(VersionRow).where(VersionRow.relation_id == relation_id, VersionRow.committed_at <= at)
        row = self.session.scalar(query.order_by(VersionRow.version.desc()).limit(1))
        return None if row is None else _to_version(row)

    def forget_versions(self, relation_id: RelationId, *, base: Collection[int], change: Collection[int]) -> None:
        """Drop the versions that name one of these snapshots."""
        named = or_(VersionRow.base_snapshot_id.in_(base), VersionRow.change_snapshot_id.in_(change))
        self.session.execute(delete(VersionRow).where(VersionRow.relation_id == relation_id, named))


def _keyed(row: KeyedTableRow) -> KeyedTable:
    return KeyedTable(
        relation_id=RelationId(row.relation_id),
        spec=KeySpec(
            primary_key=tuple(row.primary_key),
            sequence_field=row.sequence_field,
            scope=KeyScope(row.scope),
            is_insert_only=row.is_insert_only,
        ),
        base_id=RelationId(row.base_id),
        change_id=RelationId(row.change_id),
        watermark=row.watermark,
        change_sequence=row.change_sequence,
        pending_rows=row.pending_rows,
        pending_bytes=row.pending_bytes,
        pending_commits=row.pending_commits,
        pending_since=row.pending_since,
        version=row.version,
    )


def _to_version(row: VersionRow) -> Version:
    return Version(**{name: getattr(row, name) for name in Version.__slots__})
