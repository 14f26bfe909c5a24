"""Which snapshots a job of each kind may bring to which store of a keyed table.

A job's lease opens the table to it, but not to everything. What a kind is not listed with it has no business to do: a
bug in an optimizer, or one of another version, is stopped here.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.errors import CommitRefused
from catalog.iceberg.json import Json
from catalog.job import JobKind
from catalog.relation import RelationKind

_REPLACE = frozenset({"replace"})
_CHANGING = frozenset({"append", "overwrite", "delete"})

ALLOWED: Mapping[JobKind, Mapping[RelationKind, frozenset[str]]] = {
    JobKind.MERGE: {RelationKind.BASE: _CHANGING, RelationKind.CHANGE: frozenset({"delete"})},
    JobKind.SYNC: {RelationKind.BASE: _CHANGING, RelationKind.CHANGE: frozenset({"append", "delete"})},
    JobKind.PUBLISH: {RelationKind.BASE: _REPLACE},
    JobKind.CONVERT: {RelationKind.BASE: frozenset({"append"})},
    JobKind.CLEAN: {RelationKind.CHANGE: frozenset({"delete"})},
    JobKind.REWRITE: {RelationKind.BASE: _REPLACE},
    JobKind.DELETES: {RelationKind.BASE: _REPLACE},
    JobKind.COMPACT: {RelationKind.CHANGE: _REPLACE},
    JobKind.MANIFESTS: {RelationKind.BASE: _REPLACE, RelationKind.CHANGE: _REPLACE},
    JobKind.TTL: {RelationKind.BASE: _CHANGING, RelationKind.CHANGE: frozenset({"delete"})},
    JobKind.KEYS: {RelationKind.BASE: frozenset({"overwrite", "delete"})},
}
"""Operations by kind and store; a kind that is not here brings no snapshot at all."""


def check_job_snapshot(kind: JobKind | None, role: RelationKind, summary: Json) -> None:
    """CommitRefused for a snapshot that is not this kind of job's to bring; anything passes that is no job's."""
    if kind is None:
        return
    operation = str(summary.get("operation"))
    if operation not in ALLOWED.get(kind, {}).get(role, frozenset()):
        raise CommitRefused(f"a {kind} job does not {operation} on the {role} store of a keyed table")
