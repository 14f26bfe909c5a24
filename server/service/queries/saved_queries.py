"""Statements that people keep and share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.access.privileges import Principal
from catalog.errors import Conflict, NotFound
from catalog.ports.store import Database, UnitOfWork
from catalog.queries.query import SavedQuery, SavedQueryId, create_saved_query_id
from firn.protocol.queries import SavedQueryIn

MOST_SAVED = 500
"""Saved queries of one person."""


@dataclass(frozen=True)
class SavedQueries:
    """Each belongs to one person; everybody who can sign in reads the shared ones."""

    database: Database

    def list(self, owner: Principal | None) -> Sequence[SavedQuery]:
        """The owner's and the shared ones, by name."""
        with self.database.reading() as uow:
            return uow.saved_queries.list(None if owner is None else owner.id)

    def add(self, owner: Principal | None, wanted: SavedQueryIn) -> SavedQuery:
        """Save a statement. Conflict if the owner has too many."""
        with self.database.writing() as uow:
            if uow.saved_queries.count(None if owner is None else owner.id) >= MOST_SAVED:
                raise Conflict(f"you have {MOST_SAVED} saved queries", hint="Delete one before.")
            now = uow.now()
            saved = SavedQuery(
                id=create_saved_query_id(),
                owner=None if owner is None else owner.id,
                owner_name=None if owner is None else owner.name,
                created_at=now,
                updated_at=now,
                **wanted.model_dump(),
            )
            uow.saved_queries.put(saved)
        return saved

    def change(self, owner: Principal | None, saved_id: SavedQueryId, wanted: SavedQueryIn) -> SavedQuery:
        """Replace one of the owner's. NotFound for others'."""
        with self.database.writing() as uow:
            changed = replace(_get_own(uow, owner, saved_id), updated_at=uow.now(), **wanted.model_dump())
            uow.saved_queries.put(changed)
        return changed

    def remove(self, owner: Principal | None, saved_id: SavedQueryId) -> None:
        """Remove one of the owner's. NotFound for others'."""
        with self.database.writing() as uow:
            _get_own(uow, owner, saved_id)
            uow.saved_queries.remove(saved_id)


def _get_own(uow: UnitOfWork, owner: Principal | None, saved_id: SavedQueryId) -> SavedQuery:
    saved = uow.saved_queries.find(saved_id)
    if saved is None or saved.owner != (None if owner is None else owner.id):
        raise NotFound(f"saved query {saved_id} does not exist, or is somebody else's")
    return saved
