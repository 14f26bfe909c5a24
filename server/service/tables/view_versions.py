"""Lists the versions of a stored view and restores one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import Invalid, NotFound, RequirementFailed
from catalog.history.change import Change
from catalog.history.commit import TableCommit as CommitToView
from catalog.history.views import compare_versions
from catalog.iceberg.json import Json
from catalog.iceberg.view import current_version
from catalog.names import CatalogName, TableName
from catalog.tables.relation import Relation
from server.service.commit.commit_target import load_metadata
from server.service.tables.views import Views, get_view


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenView:
    """A view as it was read."""

    relation: Relation
    metadata: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRollback:
    """An older version chosen again."""

    now: int
    then: int
    changes: Sequence[Change]


@dataclass(frozen=True)
class ViewVersions:
    """The versions of a view."""

    views: Views

    def load(self, catalog: CatalogName, name: TableName) -> SeenView:
        """Load a view; raises NoSuchView, also for the generated view of a keyed table."""
        with self.views.database.reading() as uow:
            relation = get_view(uow, catalog, name)
        return SeenView(relation=relation, metadata=load_metadata(self.views.metadata, relation))

    def plan(self, catalog: CatalogName, name: TableName, version_id: int) -> ViewRollback:
        """Compare a version with the current one; raises NotFound for a version that the view does not keep."""
        return _plan_rollback(self.load(catalog, name).metadata, version_id)

    def rollback(
        self, catalog: CatalogName, name: TableName, version_id: int, *, expected_version: int | None
    ) -> ViewRollback:
        """Restore a version; raises RequirementFailed if somebody has replaced the view meanwhile."""
        metadata = self.load(catalog, name).metadata
        rollback = _plan_rollback(metadata, version_id)
        if rollback.now == rollback.then:
            return rollback
        expected = rollback.now if expected_version is None else expected_version

        def check(before: Json) -> None:
            if before["current-version-id"] != expected:
                raise RequirementFailed(
                    f"{name} reads as version {before['current-version-id']}, not as {expected}",
                    hint="somebody has replaced the view since, and nothing was changed: load it again",
                )

        requirement = {"type": "assert-view-uuid", "uuid": metadata["view-uuid"]}
        update = {"action": "set-current-view-version", "view-version-id": version_id}
        self.views.commit(catalog, CommitToView(name=name, requirements=[requirement], updates=[update]), check=check)
        return rollback


def _plan_rollback(metadata: Json, version_id: int) -> ViewRollback:
    now = current_version(metadata)
    then = next((version for version in metadata["versions"] if version["version-id"] == version_id), None)
    if then is None:
        kept = ", ".join(str(version["version-id"]) for version in metadata["versions"])
        raise NotFound(f"the view has no version {version_id}", hint=f"it has kept {kept}")
    if then.get("schema-id") not in {schema.get("schema-id") for schema in metadata["schemas"]}:
        raise Invalid(f"the schema of version {version_id} is gone")
    return ViewRollback(now=now["version-id"], then=version_id, changes=compare_versions(metadata, now, metadata, then))
