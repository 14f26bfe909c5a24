"""The stored link of a table, changed by transitions: the only way in which services write one."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import NotFound
from catalog.hive.link import HiveLink
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork


def load_link(uow: UnitOfWork, relation_id: RelationId) -> HiveLink:
    """NotFound when the table is not linked."""
    link = uow.baselines.link(relation_id)
    if link is None:
        raise NotFound("the table is not linked to Hive any more")
    return link


def update_link(uow: UnitOfWork, relation_id: RelationId, transition: Callable[[HiveLink], HiveLink]) -> None:
    """Replace the link by what the transition makes of it; nothing happens when the table is not linked any more."""
    link = uow.baselines.link(relation_id)
    if link is not None:
        uow.baselines.put_link(relation_id, transition(link))
