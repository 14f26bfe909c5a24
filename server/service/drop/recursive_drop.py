"""A namespace dropped with everything in it: all or nothing, in one transaction."""

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
from catalog.removal.undrop import Dropped, DroppedKind, DroppedState
from catalog.tables.relation import Relation, RelationKind
from server.service.drop.drop import DropOptions, drop_relation
from server.service.drop.undrop import DryRunEnds
from server.service.jobs.fencing import end_jobs
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import remove_empty

MOST = 5_000
"""Tables and views that one transaction may drop."""
_NAMED = 10
_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDropped:
    """What a drop took with it, or would take; `id` is the entry that brings all of it back, if it is kept."""

    id: UUID | None
    keep_until: datetime | None
    namespaces: Sequence[Namespace]
    dropped: Sequence[Dropped]


@dataclass(frozen=True)
class RecursiveDrops:
    """Drops namespaces with what is in them."""

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
        """Drop the namespace, those below it and every table and view in them; or the namespace alone, if it is empty.

        Their jobs end. Protected names everything in it that is protected; Conflict when it holds more than one
        transaction should drop.
        """
        done: list[NamespaceDropped] = []
        with suppress(DryRunEnds), self.database.writing() as uow:
            uow.catalogs.get(catalog)
            if recursive:
                done.append(self._dropped(uow, catalog, namespace, purge=purge))
            else:
                remove_empty(uow, catalog, namespace)
                done.append(NamespaceDropped(id=None, keep_until=None, namespaces=[namespace], dropped=()))
            if dry_run:
                raise DryRunEnds
        return done[0]

    def _dropped(self, uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, *, purge: bool) -> NamespaceDropped:
        properties = _locked(uow, catalog, namespace)
        relations = uow.relations.below(catalog, namespace, limit=MOST + 1)
        if len(relations) > MOST:
            raise Conflict(
                f"{'.'.join(namespace)} holds more than {MOST:,} tables and views", hint="drop a part of them first"
            )
        end_jobs(uow, [one.id for one in relations], f"namespace {'.'.join(namespace)} was dropped with its tables")
        for one in sorted((one for one in relations if one.kind is RelationKind.KEYED), key=lambda one: one.id):
            uow.keyed.lock(one.id)
        now, keeps = uow.now(), read_drop_retention(uow.catalogs.get(catalog).properties)
        entry_id = uuid4() if keeps > timedelta() else None
        protected = [f"namespace {'.'.join(one)}" for one, mine in properties.items() if is_protected(mine)]
        dropped = self._retired(uow, relations, DropOptions(purge=purge, parent_id=entry_id), protected)
        _refuse(namespace, protected)
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
                keep_until=now + keeps,
                purge=False,  # its tables' entries say what becomes of files
                namespaces={encode_namespace(one): mine for one, mine in properties.items()},
            )
            uow.dropped.add(entry, ())
        keep_until = now + keeps if entry_id else None
        return NamespaceDropped(id=entry_id, keep_until=keep_until, namespaces=list(properties), dropped=dropped)

    def _retired(
        self, uow: UnitOfWork, relations: Sequence[Relation], drop: DropOptions, protected: list[str]
    ) -> list[Dropped]:
        """Drop each; those that are protected are named in `protected`, and the transaction will not stand."""
        dropped: list[Dropped] = []
        for one in relations:
            try:
                dropped.append(drop_relation(uow, self.metadata, one, drop))
            except Protected:
                protected.append(str(one.name))
        return dropped


def _locked(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> Mapping[Namespace, Mapping[str, str]]:
    """The namespace and all below it with their properties, parents first; nothing can be added to them from here."""
    properties = {namespace: uow.namespaces.lock_properties(catalog, namespace)}
    for _ in range(_ROUNDS):
        below = uow.namespaces.below(catalog, namespace)
        if len(below) == len(properties):
            return properties
        properties = {one: uow.namespaces.lock_properties(catalog, one) for one in below}
    raise Conflict(f"namespaces are being added to {'.'.join(namespace)}", hint="try again")


def _refuse(namespace: Namespace, protected: Sequence[str]) -> None:
    if protected:
        more = f" and {len(protected) - _NAMED} more" if len(protected) > _NAMED else ""
        raise Protected(
            f"{'.'.join(namespace)} holds what is protected against being dropped:"
            f" {', '.join(protected[:_NAMED])}{more}",
            hint="lift it first: `firn table unprotect TABLE`, `firn namespace unprotect NAMESPACE`",
        )
