"""The drain of a keyed table with a log: made with the table, and fenced when its lease is taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from catalog.jobs.stream import Stream, StreamId
from catalog.keyed.spec import LOG_WRITER
from catalog.policy.log_settings import LogSettings
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.streams import StreamKind, StreamStatus
from server.service.access.caller import caller
from server.service.planning.policies import load_policy


def add_drain(uow: UnitOfWork, relation: Relation, properties: Mapping[str, str]) -> None:
    """Give a new keyed table with a log the stream that drains it; nothing for a table without a log."""
    if LogSettings.from_properties(properties) is None:
        return
    now = uow.now()
    stream = Stream(
        id=StreamId(uuid4()),
        catalog=relation.catalog,
        relation_id=relation.id,
        kind=StreamKind.DRAIN,
        status=StreamStatus.WAITING,
        group=load_policy(uow, relation, properties)["firn.optimize.group"],
        created_at=now,
        changed_at=now,
        retry_at=now,
        current_at=now,
    )
    uow.streams.add(stream)


def fence_copies(uow: UnitOfWork, stream: Stream) -> None:
    """Refuse later commits of all copies that run the stream now (docs/protocols.md, rule 6.10)."""
    writer = uow.writers.lock(uow.keyed.get(stream.relation_id).change_id, LOG_WRITER)
    if writer is not None:
        by = caller.get().principal
        uow.writers.put(replace(writer, epoch=writer.epoch + 1, registered_at=uow.now(), registered_by=by))
