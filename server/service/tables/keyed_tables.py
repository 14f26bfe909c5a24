"""Creates, drops and renames keyed tables with their stores, and pins their stores for readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from catalog.errors import AlreadyExists, Invalid, NoSuchTable, NoSuchView
from catalog.iceberg.json import Json
from catalog.iceberg.table import (
    current_schema,
    pin_snapshot,
    ref_snapshot_id,
)
from catalog.kafka.connection import parse_brokers
from catalog.keyed.moving_keys import may_keys_move
from catalog.keyed.partial import read_folding
from catalog.keyed.spec import BASE, CHANGE, MERGED, QUARANTINE, KeyedTable, KeySpec, Version
from catalog.keyed.view_sql import Pair, name_pinned_view, quote_name
from catalog.names import CatalogName, RelationId, TableName, explain_name_clash
from catalog.policy.log_settings import EVERY_CHANGE, LogSettings
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.undrop import Dropped
from catalog.retention.at_read import build_read_sql
from catalog.retention.ttl import Cutoff
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.names import join_name
from server.service.commit.commit_target import check_namespace, get_table, load_metadata
from server.service.commit.idempotency import Idempotency, remember
from server.service.drop.drop import DropOptions, describe_drop_reason, drop_relation
from server.service.jobs.fencing import end_jobs, rename_jobs
from server.service.streams.drains import add_drain
from server.service.tables.default_locations import make_default_location
from server.service.tables.keyed_metadata import build_base_metadata, build_change_metadata
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.read_cutoffs import find_read_cutoff
from server.service.tables.relations import NewTable, make_rename_event, refuse_worked_on
from server.service.tables.tables import TableDefinition, Tables

_PINNED = re.compile(r"(base|change)_at_(none|\d{1,19})_(\d{1,10})", re.ASCII)
_PINNED_IMAGE = re.compile(rf"{MERGED}_at_(\d{{1,19}})", re.ASCII)
_LARGEST_ID = 2**63 - 1
AlsoOnKeyed = Callable[[UnitOfWork, RelationId], None]
"""Further writes for the transaction that adds a keyed table, given its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The snapshots of both stores of a keyed table that one reader reads."""

    relation: Relation
    keyed: KeyedTable
    base_store: Relation
    change_store: Relation
    base: Json
    change: Json

    @property
    def base_name(self) -> str:
        """The pinned base table's name in the namespace of the stores."""
        return _build_pinned_name(BASE, self.base)

    @property
    def change_name(self) -> str:
        """The pinned change table's name in the namespace of the stores."""
        return _build_pinned_name(CHANGE, self.change)

    @property
    def columns(self) -> list[str]:
        """The table's columns, in order."""
        return [field["name"] for field in current_schema(self.base)["fields"]]

    @property
    def pending(self) -> bool:
        """Whether the change store holds anything above the watermark."""
        return self.keyed.pending_commits > 0

    def sql(self, cutoff: Cutoff | None) -> str:
        """The merged view over the pinned tables, for a reader whose current namespace is that of the stores."""
        return self.merged_sql(self.base_name, self.change_name, cutoff, pending=self.pending)

    def merged_sql(self, base: str, change: str, cutoff: Cutoff | None, *, pending: bool) -> str:
        """The merged rows of two relations with the columns of the pinned tables, without those before the cutoff."""
        pair = Pair(
            spec=self.keyed.spec,
            columns=self.columns,
            base=quote_name(base),
            change=quote_name(change),
            watermark=self.keyed.watermark,
            pending=pending,
            folding=read_folding(self.base, self.change),
        )
        return build_read_sql(pair, cutoff)


def _build_pinned_name(store: str, metadata: Json) -> str:
    return name_pinned_view(store, ref_snapshot_id(metadata, "main"), metadata["current-schema-id"])


def store_name(name: TableName) -> TableName:
    """The name of the store of a pinned table, or of the keyed table of a pinned image; any other name unchanged."""
    image = parse_pinned_image(name)
    if image is not None:
        return image[0]
    match = _PINNED.fullmatch(name.name)
    return name if match is None or len(name.namespace) < 2 else TableName(name.namespace, match[1])


def parse_pinned_image(name: TableName) -> tuple[TableName, int] | None:
    """The keyed table and the snapshot of a pinned image, `<table>.merged_at_<snapshot>`; None for other names."""
    match = _PINNED_IMAGE.fullmatch(name.name) if len(name.namespace) > 1 else None
    if match is None or int(match[1]) > _LARGEST_ID:
        return None
    return TableName(name.namespace[:-1], name.namespace[-1]), int(match[1])


def find_keyed(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The keyed table of this name; raises NoSuchTable when there is none."""
    relation = uow.relations.find(catalog, name)
    if relation is not None and relation.kind is RelationKind.KEYED:
        return relation
    if relation is not None and relation.kind.is_store:
        owner = join_name(name.namespace)
        raise NoSuchTable(f"{name} is a store of the keyed table {owner}", hint=f"name {owner} itself")
    raise NoSuchTable(f"keyed table {name} does not exist")


@dataclass(frozen=True)
class KeyedTables:
    """Manages keyed tables together with their stores."""

    database: Database
    metadata: MetadataFiles
    tables: Tables

    def create(
        self,
        catalog: CatalogName,
        definition: TableDefinition,
        spec: KeySpec,
        *,
        also: AlsoOnKeyed | None = None,
    ) -> KeyedTable:
        """Create the keyed table and its stores, all in one transaction. See Tables.add for failures.

        Raises Invalid for bad properties of a log.
        """
        log = LogSettings.from_properties(definition.properties)
        if log is not None and log.brokers is not None:
            parse_brokers(log.brokers)
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(catalog).warehouse
            now_ms = int(uow.now().timestamp() * 1000)
        root = (definition.location or make_default_location(warehouse, definition.name)).rstrip("/")
        base = build_base_metadata(definition, spec, location=f"{root}/base", now_ms=now_ms)
        if log is not None and log.every_change and may_keys_move(base, spec):
            raise Invalid(
                f"{EVERY_CHANGE}=true needs partitions by columns of the primary key: a key that moves to another "
                "partition has its changes in two files of a commit, which have no order",
                hint="leave the property out: drains then commit the newest change of each key",
            )
        return self.add(catalog, definition.name, spec, base, root=root, also=also)

    def add(
        self,
        catalog: CatalogName,
        name: TableName,
        spec: KeySpec,
        base: Json,
        *,
        root: str,
        hive_name: str | None = None,
        also: AlsoOnKeyed | None = None,
    ) -> KeyedTable:
        """Add a keyed table over a base store's metadata, with an empty change store; all in one transaction.

        A base that has rows already, such as that of a table that Hive wrote, is the table's version 1.
        """
        change = build_change_metadata(base, location=f"{root}/change", now_ms=base["last-updated-ms"])
        owner_id = RelationId(uuid4())
        stores = [
            NewTable(name=TableName(name.as_namespace, store), kind=kind, metadata=metadata, owner_id=owner_id)
            for store, kind, metadata in ((BASE, RelationKind.BASE, base), (CHANGE, RelationKind.CHANGE, change))
        ]
        keyed = KeyedTable(relation_id=owner_id, spec=spec, base_id=stores[0].id, change_id=stores[1].id)
        base_snapshot_id = ref_snapshot_id(base, "main")
        with self.database.reading() as uow:
            now = uow.now()
        owner = _build_owner(owner_id, catalog, name, root, hive_name, now)

        def in_transaction(uow: UnitOfWork) -> None:
            check_no_namespace(uow, catalog, name)
            if base_snapshot_id is None:
                uow.keyed.add(keyed)
            else:  # version 0 is the empty table: a reader of version 0 would miss these rows
                uow.keyed.add(replace(keyed, version=1))
                uow.keyed.add_version(_make_first_version(owner_id, base_snapshot_id, now))
            add_drain(uow, owner, base.get("properties") or {})
            if also is not None:
                also(uow, owner_id)

        self.tables.add(catalog, stores, owner=owner, also=in_transaction)
        return keyed

    def drop(
        self, catalog: CatalogName, name: TableName, *, purge: bool = False, idempotency: Idempotency | None = None
    ) -> Dropped:
        """Drop the keyed table with both stores and end its job; see `drop_relation`."""
        with self.database.writing() as uow:
            relation = find_keyed(uow, catalog, name)
            end_jobs(uow, [relation.id], describe_drop_reason(relation))
            uow.keyed.lock(relation.id)  # in the order of commits: job, keyed table, stores
            entry = drop_relation(uow, self.metadata, relation, DropOptions(purge=purge))
            remember(uow, idempotency)
        return entry

    def rename(
        self, catalog: CatalogName, source: TableName, to: TableName, *, idempotency: Idempotency | None = None
    ) -> None:
        """Rename the keyed table and its stores; their locations stay."""
        with self.database.writing() as uow:
            relation = find_keyed(uow, catalog, source)
            quarantine_id = uow.relations.quarantines_of([relation.id]).get(relation.id)
            names = {relation.id: to} | (
                {} if quarantine_id is None else {quarantine_id: TableName(to.as_namespace, QUARANTINE)}
            )
            for part_id, name in names.items():
                rename_jobs(uow, part_id, name)
            uow.keyed.lock(relation.id)
            for part_id in names:
                refuse_worked_on(uow, part_id)
            check_namespace(uow, catalog, to.namespace)
            check_no_namespace(uow, catalog, to)
            stores = uow.relations.stores_of(relation.id)
            uow.relations.rename(relation, to)
            for store in stores:
                uow.relations.rename(store, TableName(to.as_namespace, store.name.name))
            uow.events.add(make_rename_event(relation, to, uow.now()))
            remember(uow, idempotency)

    def pin(self, catalog: CatalogName, name: TableName) -> Pin:
        """Pin the current snapshots of both stores, read in one transaction (docs/protocols.md, rule 1.3)."""
        with self.database.reading() as uow:
            return self.pin_relation(uow, find_keyed(uow, catalog, name))

    def pin_relation(self, uow: UnitOfWork, relation: Relation) -> Pin:
        """Pin a keyed table that the caller has loaded in this transaction."""
        keyed = uow.keyed.get(relation.id)
        base, change = uow.relations.get(keyed.base_id), uow.relations.get(keyed.change_id)
        return Pin(
            relation=relation,
            keyed=keyed,
            base_store=base,
            change_store=change,
            base=load_metadata(self.metadata, base),
            change=load_metadata(self.metadata, change),
        )

    def pinned_table(self, catalog: CatalogName, name: TableName) -> tuple[str, Json] | None:
        """The metadata location and the metadata of a pinned table; None when the name is not a pinned table's.

        Raises NoSuchTable when the snapshot or schema has expired.
        """
        match = _PINNED.fullmatch(name.name)
        if match is None or len(name.namespace) < 2:
            return None
        _, snapshot, schema_id = match.groups()
        with self.database.reading() as uow:
            relation = uow.relations.find(catalog, store_name(name))
        if relation is None or not relation.kind.is_store or relation.metadata_location is None:
            return None
        metadata = load_metadata(self.metadata, relation)
        snapshot_id = None if snapshot == "none" else int(snapshot)
        snapshot_ids = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
        schemas = {schema["schema-id"] for schema in metadata["schemas"]}
        if (snapshot_id is not None and snapshot_id not in snapshot_ids) or int(schema_id) not in schemas:
            raise NoSuchTable(
                f"Table does not exist: {name}", hint="its snapshot has expired: read the keyed table again"
            )
        return relation.metadata_location, pin_snapshot(metadata, snapshot_id, schema_id=int(schema_id))

    def view(self, catalog: CatalogName, name: TableName) -> tuple[Pin, Json]:
        """The exact merged view over the pinned stores, as an Iceberg view; NoSuchView when it is no keyed table."""
        with self.database.reading() as uow:
            try:
                pin = self.pin_relation(uow, find_keyed(uow, catalog, name))
            except NoSuchTable as error:
                raise NoSuchView(f"View does not exist: {name}") from error
            cutoff = find_read_cutoff(uow, pin.relation, pin.base)
        return pin, _build_view_metadata(pin, cutoff)


def _make_first_version(owner_id: RelationId, base_snapshot_id: int, now: datetime) -> Version:
    return Version(
        relation_id=owner_id,
        version=1,
        base_snapshot_id=base_snapshot_id,
        change_snapshot_id=None,
        committed_at=now,
    )


def _build_owner(
    relation_id: RelationId, catalog: CatalogName, name: TableName, root: str, hive_name: str | None, now: datetime
) -> Relation:
    return Relation(
        id=relation_id,
        catalog=catalog,
        name=name,
        kind=RelationKind.KEYED,
        owner_id=None,
        location=root,
        metadata_location=None,
        version=0,
        created_at=now,
        updated_at=now,
        hive_name=hive_name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTable:
    """The table that holds the files of a name: for a pinned table its store, for a keyed table its base store."""

    relation: Relation
    is_read_only: bool
    keyed: Relation | None = None
    """The keyed table, whose images have files beside base's."""
    change: Relation | None = None
    """The change store, into whose directories engines write rows under the keyed table's own name."""


def find_serving_table(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> ServingTable:
    """The table that serves a name to engines. Raises NoSuchTable."""
    match = _PINNED.fullmatch(name.name) if len(name.namespace) > 1 else None
    store = None if match is None else uow.relations.find(catalog, TableName(name.namespace, match[1]))
    if store is not None and store.kind.is_store:
        return ServingTable(relation=store, is_read_only=True)
    owner, _ = parse_pinned_image(name) or (name, 0)
    relation = uow.relations.find(catalog, owner)
    if relation is not None and relation.kind is RelationKind.KEYED:
        keyed = uow.keyed.get(relation.id)
        return ServingTable(
            relation=uow.relations.get(keyed.base_id),
            is_read_only=owner != name,
            keyed=relation,
            change=uow.relations.get(keyed.change_id),
        )
    return ServingTable(relation=get_table(uow, catalog, name), is_read_only=False)


def check_no_namespace(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> None:
    """Raise AlreadyExists when a namespace has the name that the stores need."""
    existing = uow.namespaces.find_name_holder(catalog, name.as_namespace)
    if existing is not None:
        message = f"Namespace already exists: {name}; the stores of keyed table {name} would be in it"
        raise AlreadyExists(message, hint=explain_name_clash(join_name(existing), name))


def _build_view_metadata(pin: Pin, cutoff: Cutoff | None) -> Json:
    """Build Iceberg view metadata, version 1; the version of the view follows from both stores."""
    version = max(pin.keyed.version, 1)
    now_ms = int(pin.relation.updated_at.timestamp() * 1000)
    schema = current_schema(pin.base)
    fields = [{**field, "required": False} for field in schema["fields"]]
    return {
        "view-uuid": str(pin.relation.id),
        "format-version": 1,
        "location": pin.relation.location,
        "current-version-id": version,
        "schemas": [{**schema, "schema-id": 0, "identifier-field-ids": [], "fields": fields}],
        "versions": [
            {
                "version-id": version,
                "schema-id": 0,
                "timestamp-ms": now_ms,
                "summary": {"operation": "replace", "engine-name": "firn"},
                "default-namespace": list(pin.relation.name.as_namespace),
                "representations": [{"type": "sql", "dialect": "spark", "sql": pin.sql(cutoff)}],
            }
        ],
        "version-log": [{"version-id": version, "timestamp-ms": now_ms}],
        "properties": _build_view_properties(pin),
    }


def _build_view_properties(pin: Pin) -> Mapping[str, str]:
    base_properties = pin.base["properties"]
    own = {key: text for key, text in base_properties.items() if key.startswith("firn.") or key == "comment"}
    return own | pin.keyed.spec.to_properties() | {"firn.merged-through": str(pin.keyed.watermark)}


def with_properties(definition: TableDefinition, properties: Mapping[str, str]) -> TableDefinition:
    """The definition with more properties."""
    return replace(definition, properties={**definition.properties, **properties})
