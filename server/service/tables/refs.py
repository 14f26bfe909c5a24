"""Branches, tags and rollback: read the table, let the domain decide, commit as any client would.

Each of these requires the refs to be where they were read. A commit made meanwhile is never lost: either it comes
first and this is refused, or this comes first and the other is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catalog.errors import CommitRefused, Invalid, RequirementFailed
from catalog.history.commit import TableCommit
from catalog.history.lineage import Rollback, find_ref_or_snapshot, find_snapshot_at, plan_rollback
from catalog.history.refs import WantedRef, build_drop_ref, build_fast_forward, build_rollback, build_set_ref
from catalog.iceberg.json import Json
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where main is to be set: to a snapshot (or a ref that names it), or to what readers saw at a moment."""

    snapshot: str | None = None
    at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.snapshot is None) == (self.at is None):
            raise Invalid("the target of the rollback is unclear", hint="give either a snapshot or a time")

    def in_table(self, metadata: Json) -> int:
        """The id of the target snapshot."""
        if self.at is not None:
            return find_snapshot_at(metadata, self.at)
        return find_ref_or_snapshot(metadata, self.snapshot or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table's metadata as it was read; of a keyed table that of its base store."""

    relation: Relation
    owner: Relation
    metadata: Json


@dataclass(frozen=True)
class Refs:
    """Branches and tags of plain tables and of the base stores of keyed tables."""

    database: Database
    metadata: MetadataFiles
    committer: Committer

    def load(self, catalog: CatalogName, name: TableName) -> Seen:
        """Load the table that has the refs; raises NoSuchTable."""
        with self.database.reading() as uow:
            owner = find_planned_relation(uow, catalog, name)
            relation = owner
            if owner.kind is RelationKind.KEYED:
                relation = uow.relations.get(uow.keyed.get(owner.id).base_id)
        return Seen(relation=relation, owner=owner, metadata=load_metadata(self.metadata, relation))

    def set(self, catalog: CatalogName, name: TableName, wanted: WantedRef) -> None:
        """Create or change a branch or tag; raises Conflict if it exists and may not be replaced."""
        seen = self.load(catalog, name)
        self._commit(seen, build_set_ref(seen.relation.name, seen.metadata, wanted))

    def drop(self, catalog: CatalogName, name: TableName, ref: str) -> None:
        """Remove a branch or tag; its snapshots stay until they expire."""
        seen = self.load(catalog, name)
        self._commit(seen, build_drop_ref(seen.relation.name, seen.metadata, ref))

    def forward(self, catalog: CatalogName, name: TableName, branch: str, to: str) -> None:
        """Move a branch to another ref; raises Conflict when the branch would lose commits."""
        seen = self.load(catalog, name)
        self._commit(seen, build_fast_forward(seen.relation.name, seen.metadata, branch, to))

    def plan(self, catalog: CatalogName, name: TableName, target: Target) -> tuple[Seen, Rollback]:
        """The effect of a rollback; raises CommitRefused for a table that accepts none."""
        seen = self.load(catalog, name)
        refusal = explain_no_rollback(seen.owner)
        if refusal is not None:
            raise CommitRefused(refusal, hint=_INSTEAD[seen.owner.kind])
        return seen, plan_rollback(seen.metadata, target.in_table(seen.metadata))

    def rollback(
        self, catalog: CatalogName, name: TableName, target: Target, *, expected_head: int | None
    ) -> tuple[Seen, Rollback]:
        """Set main to the target; RequirementFailed when main is not (any more) where it was expected.

        Done already, it is no failure: the same request again, after a lost answer, finds it so.
        """
        seen, rollback = self.plan(catalog, name, target)
        if rollback.is_done:
            return seen, rollback
        if expected_head is not None and expected_head != rollback.head:
            raise RequirementFailed(f"main is at snapshot {rollback.head}, not at {expected_head}", hint=_LOOK_AGAIN)
        self._commit(seen, build_rollback(seen.relation.name, seen.metadata, rollback))
        return seen, rollback

    def _commit(self, seen: Seen, change: TableCommit | None) -> None:
        if change is None:
            return
        try:
            self.committer.commit(CommitRequest(catalog=seen.relation.catalog, changes=[change]))
        except RequirementFailed as error:
            raise RequirementFailed(error.message, hint=_LOOK_AGAIN) from error


_LOOK_AGAIN = "somebody has committed since, and nothing was changed: look at the table again"
_INSTEAD = {
    RelationKind.KEYED: "read an older state through a tag or a version of it, and undo changes with "
    "firn.spark.upsert and firn.spark.delete",
    RelationKind.QUARANTINE: "read the older snapshot with VERSION AS OF, and insert the rows that are to be retried",
    RelationKind.TABLE: "undo it on Hive's side, and the next sync brings it here",
}


def explain_no_rollback(relation: Relation) -> str | None:
    """Explain why a table cannot be rolled back; None if it can."""
    if relation.kind is RelationKind.KEYED:
        return (
            f"{relation.name} is a keyed table: its stores and the watermark between them only move together, "
            "and one of them set back would lose or repeat changes"
        )
    if relation.kind is RelationKind.QUARANTINE:
        return f"{relation.name} cannot be set back: it would have records again that a retry has sent to the table"
    if relation.hive_name is not None:
        return f"{relation.name} is linked to Hive, which would go on listing the files of what was rolled back"
    return None
