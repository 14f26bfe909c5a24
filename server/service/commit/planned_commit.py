"""A schema change on one store of a keyed table is a schema change on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.commits.rebase import RebasedManifestList
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, current_schema
from catalog.keyed.schema import build_change_schema, derive_base_schema
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import CommitTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommit:
    """One table's metadata before and after a commit; nothing is written yet."""

    target: CommitTarget
    relation: Relation
    before: Json
    after: Json
    updates: Sequence[Json]
    manifest_list: RebasedManifestList | None = None
    """What has to be written before the metadata that names it."""


def plan_commits(target: CommitTarget, updates: Sequence[Json], *, now_ms: int) -> list[PlannedCommit]:
    """What a commit makes of its table and, when the schema changes, of the store beside it."""
    facts = target.facts
    own = _applied(target, facts.relation, facts.metadata, updates, now_ms)
    if target.sibling is None or target.sibling_metadata is None or not _schema_changed(own):
        return [own]
    follows = _following(own, target.sibling_metadata)
    return [own, _applied(target, target.sibling, target.sibling_metadata, follows, now_ms)]


def _applied(
    target: CommitTarget, relation: Relation, before: Json, updates: Sequence[Json], now_ms: int
) -> PlannedCommit:
    after = apply_updates(before, updates, now_ms=now_ms, previous_location=relation.metadata_location)
    return PlannedCommit(target=target, relation=relation, before=before, after=after, updates=updates)


def _schema_changed(planned: PlannedCommit) -> bool:
    return bool(planned.after["current-schema-id"] != planned.before["current-schema-id"])


def _following(own: PlannedCommit, sibling: Json) -> list[Json]:
    """The updates that give the other store the same columns."""
    schema = current_schema(own.after)
    if own.relation.kind is RelationKind.BASE:
        wanted = build_change_schema(schema)
    else:
        wanted = derive_base_schema(schema, current_schema(sibling).get("identifier-field-ids", ()))
    return [{"action": "add-schema", "schema": wanted}, {"action": "set-current-schema", "schema-id": -1}]
