"""The stored link of a table, changed by transitions: the only way in which services write one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from catalog.errors import NotFound
from catalog.hive.link import HiveLink, UnrepresentableNote
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork

MAX_REASON_LENGTH = 500
"""How many characters of a reason the link keeps."""


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


def note_unrepresentable(
    uow: UnitOfWork, relation_id: RelationId, digests: Mapping[str, str], partitions: Collection[str], reason: str
) -> None:
    """Note that a job has left these partitions out, each with the digest of what the job was to write it from.

    A note holds for that digest alone: a lost note costs one more try, and a late one does no harm.
    """
    notes = {
        name: UnrepresentableNote(digests[name], reason[:MAX_REASON_LENGTH])
        for name in sorted(partitions)
        if name in digests
    }
    if notes:
        update_link(uow, relation_id, lambda link: link.with_unrepresentable(notes))


def forget_unrepresentable(uow: UnitOfWork, relation_id: RelationId, partitions: Collection[str]) -> None:
    """Forget the notes of partitions that are gone, published or changed: the next publish tries them again."""
    update_link(uow, relation_id, lambda link: link.without_unrepresentable(partitions))
