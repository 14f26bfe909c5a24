"""Drops a namespace with everything in it: all or nothing, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from catalog.errors import Conflict, Protected
from catalog.names import CatalogName, Namespace, encode_namespace
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.drop import is_protected, read_drop_retention
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.dropped import DroppedKind, DroppedState
from server.service.drop.drop import DropOptions, drop_relation
from server.service.drop.undrop import DryRunEnds
from server.service.jobs.fencing import end_jobs
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import remove_empty

MOST = 5_000
"""Tables and views that one transaction may drop."""
_MAX_NAMES_SHOWN = 10
_MAX_LOCK_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDropped:
    """The namespaces and relations that a drop removed, or would remove in a dry run.

    `id` is the entry that restores all of them; None when the catalog keeps nothing.
    """

    id: UUID | None
    keep_until: datetime | None
    namespaces: Sequence[Namespace]
    dropped: Sequence[Dropped]


@dataclass(frozen=True)
class RecursiveDrops:
    """Drops namespaces with their tables and views."""

    database: Database
    metadata: MetadataFiles

    def drop(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        *,
        recursive: bool = True,
        purge: bool = False,
        dry_run: bool = False,
    ) -> NamespaceDropped:
        """Drop the namespace, its child namespaces and all their tables and views; their jobs end.

        Without `recursive`, drop the namespace only if it is empty. Raises Protected, which names every protected
        namespace, table and view, and Conflict above MOST tables and views.
        """
        done: list[NamespaceDropped] = []
        with suppress(DryRunEnds), self.database.writing() as uow:
            uow.catalogs.get(catalog)
            if recursive:
                done.append(self._drop_all(uow, catalog, namespace, purge=purge))
            else:
                remove_empty(uow, catalog, namespace)
                done.append(NamespaceDropped(id=None, keep_until=None, namespaces=[namespace], dropped=()))
            if dry_run:
                raise DryRunEnds
        return done[0]

    def _drop_all(
        self, uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, *, purge: bool
    ) -> NamespaceDropped:
        properties = _lock_namespaces(uow, catalog, namespace)
        relations = uow.relations.below(catalog, namespace, limit=MOST + 1)
        if len(relations) > MOST:
            raise Conflict(
                f"{'.'.join(namespace)} holds more than {MOST:,} tables and views", hint="drop some of them first"
            )
        reason = f"namespace {'.'.join(namespace)} was dropped with its tables"
        end_jobs(uow, [relation.id for relation in relations], reason)
        for keyed_id in sorted(relation.id for relation in relations if relation.kind is RelationKind.KEYED):
            uow.keyed.lock(keyed_id)
        now, retention = uow.now(), read_drop_retention(uow.catalogs.get(catalog).properties)
        entry_id = uuid4() if retention > timedelta() else None
        protected = [f"namespace {'.'.join(path)}" for path, own in properties.items() if is_protected(own)]
        dropped = self._drop_relations(uow, relations, DropOptions(purge=purge, parent_id=entry_id), protected)
        _check_unprotected(namespace, protected)
        for below in reversed(list(properties)):
            uow.namespaces.remove(catalog, below)
        if entry_id is not None:
            entry = Dropped(
                id=entry_id,
                catalog=catalog,
                path=namespace,
                kind=DroppedKind.NAMESPACE,
                state=DroppedState.DROPPED,
                dropped_at=now,
                keep_until=now + retention,
                purge=False,  # the entries of the tables hold their own purge flag
                namespaces={encode_namespace(path): own for path, own in properties.items()},
            )
            uow.dropped.add(entry, ())
        keep_until = now + retention if entry_id else None
        return NamespaceDropped(id=entry_id, keep_until=keep_until, namespaces=list(properties), dropped=dropped)

    def _drop_relations(
        self, uow: UnitOfWork, relations: Sequence[Relation], drop: DropOptions, protected: list[str]
    ) -> list[Dropped]:
        """Drop each relation, and add the names of protected ones to `protected`; the caller then rolls back."""
        dropped: list[Dropped] = []
        for relation in relations:
            try:
                dropped.append(drop_relation(uow, self.metadata, relation, drop))
            except Protected:
                protected.append(str(relation.name))
        return dropped


def _lock_namespaces(
    uow: UnitOfWork, catalog: CatalogName, namespace: Namespace
) -> Mapping[Namespace, Mapping[str, str]]:
    """Lock the namespace and its child namespaces, and return their properties, parents first.

    No request can add anything to a locked namespace. Raises Conflict while other requests keep adding namespaces.
    """
    properties = {namespace: uow.namespaces.lock_properties(catalog, namespace)}
    for _ in range(_MAX_LOCK_ROUNDS):
        below = uow.namespaces.below(catalog, namespace)
        if len(below) == len(properties):
            return properties
        properties = {path: uow.namespaces.lock_properties(catalog, path) for path in below}
    raise Conflict(f"other requests are adding namespaces to {'.'.join(namespace)}", hint="try again")


def _check_unprotected(namespace: Namespace, protected: Sequence[str]) -> None:
    if protected:
        hidden = len(protected) - _MAX_NAMES_SHOWN
        more = f" and {hidden} more" if hidden > 0 else ""
        raise Protected(
            f"{'.'.join(namespace)} cannot be dropped, because these are protected:"
            f" {', '.join(protected[:_MAX_NAMES_SHOWN])}{more}",
            hint="remove the protection first: `firn table unprotect TABLE`, `firn namespace unprotect NAMESPACE`",
        )
