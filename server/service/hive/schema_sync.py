"""Syncs the columns of a linked table and of its Hive table, in both directions, as far as a policy allows.

The server takes over Hive's changes in one commit, and its transaction stores the new common columns in the link. The
other direction needs no journal: if the server dies after it altered Hive's table, both sides have the same columns,
which is no change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from catalog.errors import CatalogError, CommitUnknown, Conflict, RequirementFailed, Unavailable
from catalog.history.commit import TableCommit
from catalog.hive.columns import SchemaDrift, SchemaPush, SchemaSides
from catalog.hive.link import DriftKind, HiveLink
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import build_name_mapping, read_aliases
from catalog.hive.model import PROVIDER, HiveColumn, HiveTable, to_stored_columns
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publishing import compare_partitions
from catalog.hive.schema_sync import compare_schemas
from catalog.hive.upgrade_check import UpgradeBlockerCode, find_blockers
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.names import RelationId
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.commit.commit_path import Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.file_registration import Moved, apply
from server.service.hive.hive_state import LinkedTable, load_linked_table, locked
from server.service.hive.table_index import HiveIndex
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)


class LinkBroken(Conflict):
    """The Hive table is not the one that the table was upgraded from any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSyncResult:
    """The result of a sync of columns."""

    linked: LinkedTable
    """The table and its link after that."""
    drift: SchemaDrift
    changes: tuple[str, ...] = ()
    refused: str | None = None
    """Why the metastore refused to alter Hive's columns."""
    hive: tuple[HiveColumn, ...] = ()
    """Hive's columns now."""

    @property
    def drift_kind(self) -> DriftKind:
        """The kind of the drift: a refusal of the metastore concerns the table."""
        return DriftKind.COLUMNS if self.refused is None else DriftKind.TABLE

    @property
    def trouble(self) -> str | None:
        """The differences that a user has to decide about or to mend."""
        return "; ".join(text for text in (self.drift.sentence, self.refused) if text) or None


@dataclass(frozen=True)
class SchemaSync:
    """Brings both sides' columns into step; safe to run at any time, by any number of servers."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles

    def follow(self, linked: LinkedTable, table: HiveTable, *, publishing: bool = False) -> SchemaSyncResult:
        """Take over Hive's changes of the columns, and alter Hive's columns as far as the policy allows.

        For a table that was never published, the server alters nothing, unless it is `publishing` now or the policy is
        `all`. Raises LinkBroken if Hive's users have recreated the Hive table; Moved if another server has changed the
        table or its link since `linked` was loaded.
        """
        if unfit := explain_unfit(linked.link, table):
            raise LinkBroken(unfit)
        result = self._follow(linked, table, publishing=publishing)
        after = self._load(linked.relation)
        if after.link.generation != linked.link.generation:
            raise Moved  # the caller read Hive before another sync or publish: it would see that one's work as changes
        return replace(result, linked=after)

    def _load(self, relation: Relation) -> LinkedTable:
        with self.database.reading() as uow:
            return load_linked_table(uow, uow.relations.get(relation.id))

    def _follow(self, linked: LinkedTable, table: HiveTable, *, publishing: bool) -> SchemaSyncResult:
        metadata = load_metadata(self.metadata, linked.target)
        drift = _compare(linked, table, metadata)
        if drift.changes:
            self._take(linked, table, metadata, drift)
        else:
            self._note(linked.relation.id, linked.link.columns, drift)
        result = SchemaSyncResult(linked=linked, drift=drift, changes=tuple(drift.changes), hive=table.columns)
        if linked.gives is SchemaPush.ALL or (
            linked.gives is SchemaPush.ADDITIONS and (linked.is_published or publishing)
        ):
            return self._give(linked, table, result)
        return result

    def _take(self, linked: LinkedTable, table: HiveTable, metadata: Json, drift: SchemaDrift) -> None:
        again = self._find_rewritten_partitions(linked, table, metadata) if drift.revived and linked.is_keyed else []
        mapping = build_name_mapping(drift.schema, drift.aliases)
        updates: list[Json] = [
            {"action": "add-schema", "schema": drift.schema, "last-column-id": drift.last_column_id},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "set-properties", "updates": {NAME_MAPPING: mapping}},
        ]
        unmoved = {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]}
        change = TableCommit(name=linked.target.name, requirements=[unmoved], updates=updates)
        before = linked.link.columns
        apply(
            self.committer,
            linked,
            change,
            lambda uow: note_schema(uow, linked.relation.id, before, drift, read_again=again),
        )

    def _find_rewritten_partitions(self, linked: LinkedTable, table: HiveTable, metadata: Json) -> list[str]:
        """Partitions that do not stand on Hive's own files: rows that were rewritten lack a column that comes back."""
        records = to_partition_records(table.partition_columns, linked.baselines)
        return sorted(compare_partitions(self.files.live_files(metadata), linked.baselines, records).differing)

    def _give(self, linked: LinkedTable, table: HiveTable, result: SchemaSyncResult) -> SchemaSyncResult:
        """Give Hive harmless changes first: a change that the metastore refuses does not hold them up."""
        drift, in_hive = result.drift, table.columns
        provider = table.parameters.get(PROVIDER, "hive").lower()
        refused: str | None = None
        for gives in (
            (SchemaPush.ADDITIONS, SchemaPush.ALL) if linked.gives is SchemaPush.ALL else (SchemaPush.ADDITIONS,)
        ):
            columns = drift.pushed[gives]
            if columns == in_hive:
                continue
            if provider != "hive":
                refused = f"Spark keeps the columns of {table.full_name} itself: alter them there"
                break
            try:
                self._alter(linked, table, in_hive, columns)
            except (CommitUnknown, Unavailable) as error:  # a later sync sees whether it has them
                refused = str(error)
                break
            except Conflict as error:
                raise Moved from error
            except CatalogError as error:
                refused = error.message
                continue
            in_hive = columns
        if in_hive != table.columns:
            altered = replace(table, storage=replace(table.storage, columns=in_hive))
            with self.database.reading() as uow:
                link = uow.baselines.link(linked.relation.id) or linked.link
            drift = _compare(replace(linked, link=link), altered, load_metadata(self.metadata, self._target(linked)))
            self._note(linked.relation.id, link.columns, drift)
        changes = (*result.changes, *_describe_changes(table.columns, in_hive))
        return replace(result, drift=drift, changes=changes, refused=refused, hive=in_hive)

    def _target(self, linked: LinkedTable) -> Relation:
        with self.database.reading() as uow:
            return uow.relations.get(linked.target.id)

    def _alter(
        self, linked: LinkedTable, table: HiveTable, before: Sequence[HiveColumn], columns: Sequence[HiveColumn]
    ) -> None:
        """Partitions get the columns too where they had the table's: others are as their owner left them."""
        metastore = self.index.metastore(linked.relation.catalog)
        database, name = table.database, table.name
        names = metastore.partition_names(database, name) if table.partition_columns else []
        partitions = metastore.partitions(database, name, names)
        cascade = bool(partitions) and all(
            _are_alike(partition.storage.columns, to_stored_columns(before)) for partition in partitions
        )
        with locked(metastore, database, name):
            metastore.alter_columns(database, name, to_stored_columns(columns), expected=before, cascade=cascade)

    def _note(self, relation_id: RelationId, before: Sequence[HiveColumn], drift: SchemaDrift) -> None:
        with self.database.reading() as uow:
            link = uow.baselines.link(relation_id)
        if link is None or link.has_schema(drift):
            return
        with self.database.writing() as uow:
            try:
                note_schema(uow, relation_id, before, drift)
            except RequirementFailed as error:
                raise Moved from error


def explain_unfit(link: HiveLink, table: HiveTable) -> str | None:
    """Explain why a sync cannot follow the Hive table as it is now; None if it can.

    A problem that the check before the upgrade did not find may have appeared since, or Hive's users may have recreated
    the table.
    """
    before = [(column.name.lower(), column.type) for column in link.partition_columns]
    now = [(column.name.lower(), column.type) for column in table.partition_columns]
    if before != now:
        return (
            f"Hive partitions {table.full_name} by {_columns(now)}, the table here is partitioned by "
            f"{_columns(before)}; nothing was changed. "
            "Give the Hive table the partition columns that it had, or another name."
        )
    # A column's type is a matter of its column alone.
    blockers = [blocker for blocker in find_blockers(table, ()) if blocker.code is not UpgradeBlockerCode.COLUMN_TYPE]
    return f"{blockers[0].message}; nothing is taken over until the Hive table is as it was" if blockers else None


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in columns)})" if columns else "nothing"


def _compare(linked: LinkedTable, table: HiveTable, metadata: Json) -> SchemaDrift:
    return compare_schemas(
        SchemaSides(
            baseline=linked.link.columns,
            hive=table.columns,
            schema=current_schema(metadata),
            last_column_id=metadata["last-column-id"],
            aliases=read_aliases(metadata["properties"][NAME_MAPPING]),
            former=linked.link.former_columns,
            history=metadata["schemas"],
            partition_columns=[column.name for column in table.partition_columns],
            needed=linked.needed,
            decides=linked.decides,
        )
    )


def note_schema(
    uow: UnitOfWork,
    relation_id: RelationId,
    before: Sequence[HiveColumn],
    drift: SchemaDrift,
    *,
    read_again: Sequence[str] = (),
) -> None:
    """Store the common columns and the differences. Raises RequirementFailed if another sync has stored some since."""
    link = uow.baselines.link(relation_id)
    if link is None or link.columns != before:
        raise RequirementFailed("another sync compared the columns first", hint="sync again")
    uow.baselines.put_link(relation_id, link.with_schema(drift, uow.now(), read_again))


def _are_alike(columns: Sequence[HiveColumn], other: Sequence[HiveColumn]) -> bool:
    return [(column.name, column.type) for column in columns] == [(column.name, column.type) for column in other]


def _describe_changes(before: Sequence[HiveColumn], after: Sequence[HiveColumn]) -> Iterator[str]:
    """Describe the changes of Hive's columns."""
    was, now = ({column.name: column for column in side} for side in (before, after))
    for name, column in now.items():
        if name not in was:
            yield f"gave Hive column {name} {column.type}"
        elif column.type != was[name].type:
            yield f"made column {name} {column.type} in Hive"
        elif column.comment != was[name].comment:
            yield f"gave Hive the comment of column {name}"
    for name in was.keys() - now.keys():
        yield f"dropped column {name} in Hive"
