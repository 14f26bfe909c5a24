"""Plans the new metadata of a commit. A schema change on one store of a keyed table also changes the other store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.commits.rebase import RebasedManifestList
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, current_schema
from catalog.keyed.partial import PARTIAL, is_partial, wants_partial
from catalog.keyed.schema import build_change_schema, derive_base_schema
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import CommitTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommit:
    """The metadata of one table before and after a commit, before the server writes anything."""

    target: CommitTarget
    relation: Relation
    before: Json
    after: Json
    updates: Sequence[Json]
    manifest_list: RebasedManifestList | None = None
    """A manifest list that the server has to write before the metadata, which names it."""


def plan_commits(target: CommitTarget, updates: Sequence[Json], *, now_ms: int) -> list[PlannedCommit]:
    """The planned commit of the table and, when a store's schema changes, of its sibling store.

    The change store's schema also changes when the table gets partial columns.
    """
    facts = target.facts
    own = _apply(target, facts.relation, facts.metadata, updates, now_ms)
    if target.sibling is None or target.sibling_metadata is None:
        return [own]
    becomes_partial = _becomes_partial(own, target.sibling_metadata)
    if not becomes_partial and not _has_changed_schema(own):
        return [own]
    sibling_updates = _build_sibling_updates(own, target.sibling_metadata)
    if becomes_partial:
        sibling_updates.append({"action": "set-properties", "updates": {PARTIAL: "true"}})
    return [own, _apply(target, target.sibling, target.sibling_metadata, sibling_updates, now_ms)]


def _apply(
    target: CommitTarget, relation: Relation, before: Json, updates: Sequence[Json], now_ms: int
) -> PlannedCommit:
    after = apply_updates(before, updates, now_ms=now_ms, previous_location=relation.metadata_location)
    return PlannedCommit(target=target, relation=relation, before=before, after=after, updates=updates)


def _has_changed_schema(planned: PlannedCommit) -> bool:
    return bool(planned.after["current-schema-id"] != planned.before["current-schema-id"])


def _becomes_partial(own: PlannedCommit, sibling: Json) -> bool:
    """Whether the commit to base switches partial columns on; the rules for stores have checked that it may."""
    is_base = own.relation.kind is RelationKind.BASE
    return is_base and not is_partial(sibling) and wants_partial(own.after.get("properties") or {})


def _build_sibling_updates(own: PlannedCommit, sibling: Json) -> list[Json]:
    """The updates that give the sibling store the same columns."""
    schema = current_schema(own.after)
    if own.relation.kind is RelationKind.BASE:
        partial = is_partial(sibling) or _becomes_partial(own, sibling)
        new_schema = build_change_schema(schema, partial=partial)
    else:
        new_schema = derive_base_schema(schema, current_schema(sibling).get("identifier-field-ids", ()))
    return [{"action": "add-schema", "schema": new_schema}, {"action": "set-current-schema", "schema-id": -1}]
