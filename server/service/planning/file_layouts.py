"""Counts how tables' files lie, in the background, for those tables whose counts the planner has found to be old.

Commits write no such counts: what a commit adds and removes stands in manifests, and no commit waits for them.
The pointer and the statistics are read in one transaction, and the manifests after it never change. What is stored says
what it was counted of, so that a count that a commit has overtaken is known for one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from catalog.errors import CatalogError
from catalog.files.file_layout import FileLayout, LayoutCounter
from catalog.files.manifest_entries import ManifestEntry
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.names import RelationId
from catalog.planning import TableFacts
from catalog.planning.file_rules import compact_rule, rewrite_rule
from catalog.policy.sizes import small_file_bytes
from catalog.ports.manifest_reading import ManifestReading
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind, TableStats
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import load_file_rule
from server.service.planning.planner import PLANNED_KINDS, load_facts
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

MOST = 200
"""Tables of one round."""
AT_ONCE = 4
UNREADABLE_FOR = timedelta(minutes=5)
"""So long a table whose manifests cannot be read is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedStatus:
    """What one round did."""

    counted: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A table or store, read in one transaction."""

    relation: Relation
    facts: TableFacts
    stats: TableStats

    @property
    def is_change(self) -> bool:
        return self.relation.kind is RelationKind.CHANGE

    @property
    def rule(self) -> Json:
        """What a planned job of it would be told."""
        if self.is_change and self.facts.keyed is not None:
            return compact_rule(self.facts.policy, self.facts.keyed)
        return rewrite_rule(self.facts.policy)


@dataclass(frozen=True)
class FileLayouts:
    """Rounds of two servers at once are harmless: what is stored names the snapshot that it is of."""

    database: Database
    metadata: MetadataFiles
    manifests: ManifestReading

    def round(self) -> CountedStatus:
        """Count what is wanted, longest wanted first."""
        with self.database.reading() as uow:
            wanted = uow.layouts.wanted(uow.now(), limit=MOST)
        if not wanted:
            return CountedStatus()
        with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "count") as threads:
            done = list(threads.map(self._counted, wanted))
        return CountedStatus(counted=done.count(True), unreadable=done.count(False))

    def count(self, relation_id: RelationId) -> bool:
        """Count the files of a plain table or of a store now; False when it is gone."""
        subject = self._subject(relation_id)
        if subject is None:
            with self.database.writing() as uow:
                uow.layouts.put_off(relation_id, None)
            return False
        layout = self._layout(subject)
        with self.database.writing() as uow:
            if relation_id in uow.relations.held([relation_id]):
                uow.layouts.put(relation_id, layout, uow.now())
                uow.stats.look_again([relation_id], uow.now())
        return True

    def _counted(self, relation_id: RelationId) -> bool:
        """Metadata and manifests were written by anybody: whatever is wrong with them stops no other table's count."""
        try:
            return self.count(relation_id)
        except CatalogError as error:
            log.warning("the files of %s cannot be counted: %s", relation_id, error.message)
        except Exception:
            log.exception("the files of %s cannot be counted", relation_id)
        with self.database.writing() as uow:
            uow.layouts.put_off(relation_id, uow.now() + UNREADABLE_FOR)
        return False

    def _subject(self, relation_id: RelationId) -> _Subject | None:
        with self.database.reading() as uow:
            found = uow.relations.get_many([relation_id])
            relation = found.get(relation_id)
            if relation is None or relation.metadata_location is None:
                return None
            owner = relation if relation.owner_id is None else uow.relations.get(relation.owner_id)
            if owner.kind not in PLANNED_KINDS:
                return None
            facts = load_facts(uow, owner)
        change = facts.change
        is_change = change is not None and change.relation_id == relation_id
        return _Subject(relation=relation, facts=facts, stats=change if change and is_change else facts.stats)

    def _layout(self, subject: _Subject) -> FileLayout:
        began = time.monotonic()
        metadata, rule = load_metadata(self.metadata, subject.relation), subject.rule
        counter = LayoutCounter(metadata, rule, small_file_bytes(subject.facts.policy, subject.relation.kind))
        head = current_snapshot(metadata)
        counts: dict[str, Any] = {}
        if head is not None:
            confined = load_file_rule(self.database, self.metadata.files, subject.relation, metadata)
            files = _data_files(self.manifests.confined(confined), metadata, head, counter)
            counts = counter.compacted(files) if subject.is_change else counter.rewritten(files)
        return FileLayout(
            snapshot_id=None if head is None else head["snapshot-id"],
            spec_id=counter.spec_id,
            epoch=subject.stats.epoch,
            rule=rule,
            seconds=round(time.monotonic() - began, 3),
            **counts,
        )


def _data_files(
    manifests: ManifestReading, metadata: Json, head: Json, counter: LayoutCounter
) -> Iterator[ManifestEntry]:
    """The data files, one by one, after the counter has been given all delete files."""
    lines = manifests.lines(metadata, head)
    for line in lines:
        if line.has_deletes:
            for file in manifests.files(metadata, line):
                counter.add_delete(file)
    return (file for line in lines if not line.has_deletes for file in manifests.files(metadata, line))
