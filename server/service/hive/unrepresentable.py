"""Partitions in Avro with values that Hive would read otherwise: what was tried once is not tried again as it was.

Only the rows tell, so a job has to write to find out. What it left out is noted on the link, with a digest of what
it was written from: the partition's files, deletes included, and the columns of both sides. A note speaks of that alone
and stays true whatever happens; so one that is lost costs one more try, and one that is late does no harm.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from catalog.files.data_file import FileFormat, LiveFile
from catalog.hive.link import HiveLink, UnrepresentableNote
from catalog.hive.model import HiveTable
from catalog.hive.publishing import Record, fingerprint_files
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork
from server.service.hive.link_store import update_link

WORDS = 500
"""As many characters of each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrepresentable:
    """What is known of partitions that differ and are in Avro."""

    tried: Mapping[str, str]
    """What each would be written from now."""
    reason: Mapping[str, str]
    """Those that were left out when they were written from the same, and the values because of which."""
    stale: frozenset[str] = frozenset()
    """Those of which what was noted is no longer so."""


def find_unrepresentable(
    link: HiveLink,
    live: Iterable[LiveFile],
    differing: Mapping[str, Record],
    table: HiveTable,
    schema: int,
    formats: Mapping[str, FileFormat],
) -> Unrepresentable:
    """What is noted in the books beside what partitions are now; `live` is not looked at where nothing is in Avro."""
    notes = link.unrepresentable
    in_avro = {name: one for name, one in differing.items() if formats.get(name) is FileFormat.AVRO}
    # What waits for something else now may have no format told: what is noted of it stays.
    unknown = {name: one for name, one in differing.items() if name in notes and name not in formats}
    tried = _tried(live, in_avro | unknown, table, schema) if in_avro or unknown else {}
    holds = {name for name, note in notes.items() if tried.get(name) == note.tried}
    return Unrepresentable(
        tried={name: tried[name] for name in in_avro},
        reason={name: notes[name].reason for name in holds & in_avro.keys()},
        stale=frozenset(notes.keys() - holds),
    )


def _tried(live: Iterable[LiveFile], partitions: Mapping[str, Record], table: HiveTable, schema: int) -> dict[str, str]:
    files: dict[Record, list[LiveFile]] = defaultdict(list)
    wanted = frozenset(partitions.values())
    for one in live:
        if one.partition in wanted:
            files[one.partition].append(one)
    columns = [(one.name, one.type) for one in table.columns]
    return {name: _digest((columns, schema, fingerprint_files(files[one], [one]))) for name, one in partitions.items()}


def _digest(of: object) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()[:32]


def note_unrepresentable(
    uow: UnitOfWork, relation_id: RelationId, tried: Mapping[str, str], unrepresentable: Collection[str], reason: str
) -> None:
    """A job that was written from what was `tried` has left these partitions out."""
    new = {name: UnrepresentableNote(tried[name], reason[:WORDS]) for name in sorted(unrepresentable) if name in tried}
    if new:
        update_link(uow, relation_id, lambda link: link.with_unrepresentable(new))


def forget_unrepresentable(uow: UnitOfWork, relation_id: RelationId, names: Collection[str]) -> None:
    """Partitions that are gone, that Hive was given, or that were changed: they are tried again."""
    update_link(uow, relation_id, lambda link: link.without_unrepresentable(names))
