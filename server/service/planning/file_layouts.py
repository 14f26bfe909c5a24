"""Counts the files of tables in the background, for tables whose file layout the planner has found outdated.

Commits do not write these counts: that would mean reading manifests, and no commit waits for them. The server reads
the pointer and the statistics in one transaction; the manifests never change. The stored layout names its snapshot, so
the planner recognizes a layout that a newer commit has outdated.
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
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

MOST = 200
"""Tables and stores in one run."""
AT_ONCE = 4
UNREADABLE_FOR = timedelta(minutes=5)
"""How long the server waits before it reads unreadable manifests again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedStatus:
    """The number of tables and stores that one run counted, and of those that it could not read."""

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
        """The bin-packing rule that a planned job of the table would use."""
        if self.is_change and self.facts.keyed is not None:
            return compact_rule(self.facts.policy, self.facts.keyed)
        return rewrite_rule(self.facts.policy)


@dataclass(frozen=True)
class FileLayouts:
    """Counts files. Runs of two servers at once are harmless, because a stored layout names its snapshot."""

    database: Database
    metadata: MetadataFiles
    manifests: ManifestReading

    def run_once(self) -> CountedStatus:
        """Count the tables and stores that the planner has requested, the longest waiting first."""
        with self.database.reading() as uow:
            requested = uow.layouts.list_requested(uow.now(), limit=MOST)
        if not requested:
            return CountedStatus()
        with ThreadPoolExecutor(min(AT_ONCE, len(requested)), "count") as threads:
            results = list(threads.map(self._count_or_postpone, requested))
        return CountedStatus(counted=results.count(True), unreadable=results.count(False))

    def count(self, relation_id: RelationId) -> bool:
        """Count the files of a plain table or of a store now; False when the table is gone."""
        subject = self._load_subject(relation_id)
        if subject is None:
            with self.database.writing() as uow:
                uow.layouts.put_off(relation_id, None)
            return False
        layout = self._count_files(subject)
        with self.database.writing() as uow:
            if relation_id in uow.relations.lock_existing([relation_id]):
                uow.layouts.put(relation_id, layout, uow.now())
                uow.stats.request_plans([relation_id], uow.now())
        return True

    def _count_or_postpone(self, relation_id: RelationId) -> bool:
        """Count one table; no error in its metadata or manifests, which any engine may write, stops other tables."""
        try:
            return self.count(relation_id)
        except CatalogError as error:
            log.warning("the server cannot count the files of %s: %s", relation_id, error.message)
        except Exception:
            log.exception("the server cannot count the files of %s", relation_id)
        with self.database.writing() as uow:
            uow.layouts.put_off(relation_id, uow.now() + UNREADABLE_FOR)
        return False

    def _load_subject(self, relation_id: RelationId) -> _Subject | None:
        with self.database.reading() as uow:
            relation = uow.relations.get_many([relation_id]).get(relation_id)
            if relation is None or relation.metadata_location is None:
                return None
            owner = relation
            if relation.owner_id is not None and not relation.kind.is_planned:
                owner = uow.relations.get(relation.owner_id)
            if not owner.kind.is_planned:
                return None
            facts = load_facts(uow, owner)
        change = facts.change
        is_change = change is not None and change.relation_id == relation_id
        return _Subject(relation=relation, facts=facts, stats=change if change and is_change else facts.stats)

    def _count_files(self, subject: _Subject) -> FileLayout:
        started = time.monotonic()
        metadata, rule = load_metadata(self.metadata, subject.relation), subject.rule
        counter = LayoutCounter(metadata, rule, small_file_bytes(subject.facts.policy, subject.relation.kind))
        head = current_snapshot(metadata)
        counts: dict[str, Any] = {}
        if head is not None:
            location_rule = load_file_rule(self.database, self.metadata.files, subject.relation, metadata)
            files = _read_data_files(self.manifests.confined(location_rule), metadata, head, counter)
            counts = counter.compacted(files) if subject.is_change else counter.rewritten(files)
        return FileLayout(
            snapshot_id=None if head is None else head["snapshot-id"],
            spec_id=counter.spec_id,
            epoch=subject.stats.epoch,
            rule=rule,
            seconds=round(time.monotonic() - started, 3),
            **counts,
        )


def _read_data_files(
    manifests: ManifestReading, metadata: Json, head: Json, counter: LayoutCounter
) -> Iterator[ManifestEntry]:
    """Give all delete files to the counter, then return the data files one by one."""
    lines = manifests.lines(metadata, head)
    for line in lines:
        if line.has_deletes:
            for file in manifests.files(metadata, line):
                counter.add_delete(file)
    return (file for line in lines if not line.has_deletes for file in manifests.files(metadata, line))
