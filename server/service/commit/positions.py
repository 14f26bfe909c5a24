"""The positions of writers in the transaction of a commit (docs/protocols.md, rules 6.1, 6.2 and 6.7)."""

from __future__ import annotations

from datetime import datetime

from catalog.commits.writers import advance_writer, move_writers_with_main, read_progress
from catalog.ports.store import UnitOfWork
from server.service.commit.planned_commit import PlannedCommit


def store_position(uow: UnitOfWork, planned: PlannedCommit, now: datetime) -> bool:
    """Store the position that the commit has reached; False if its writer has changed since validation."""
    facts = planned.target.facts
    is_sibling = planned.relation.id != facts.relation.id
    progress = None if is_sibling else read_progress(facts.change.updates)
    if progress is None:
        return True
    writer = uow.writers.lock(facts.relation.id, progress.writer)
    if writer is None or writer != facts.writer:
        return False
    uow.writers.put(advance_writer(writer, progress, now))
    return True


def move_positions_with_main(uow: UnitOfWork, planned: PlannedCommit, was: int, now: int) -> None:
    """Set positions back to those of snapshot `now`, to which main moves; Conflict if nothing tells them any more."""
    writers = uow.writers.lock_all(planned.relation.id)
    if not writers:
        return
    for writer in move_writers_with_main(planned.before, was, now, writers):
        uow.writers.put(writer)
