"""The state of a keyed table: its key, its stores, its watermark, and its pending changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from catalog.errors import Invalid
from catalog.names import RelationId

PRIMARY_KEY = "firn.primary-key"
SEQUENCE_FIELD = "firn.sequence-field"
KEY_SCOPE = "firn.key.scope"
INSERT_ONLY = "firn.insert-only"

MERGED_THROUGH = "firn.merged-through"
MERGED_FROM = "firn.merged-from"
MERGED_BASE = "firn.merged-base"
MERGED_CHANGE = "firn.merged-change"
LOOKED_AT_CHANGE = "firn.looked-at-change"
RESOLVED_BASE = "firn.resolved-base"
JOB_ID = "firn.job-id"
REASON = "firn.reason"
"""Why a commit of Firn changes rows that no change names."""
WRITER_ID = "firn.writer-id"
BATCH_ID = "firn.batch-id"
WRITER_EPOCH = "firn.writer-epoch"
POSITION_FROM = "firn.position-from"
POSITION = "firn.position"
LOG_POSITION = "firn.log-position"
"""On each change snapshot of a table with a log: the log's position (docs/protocols.md, rule 6.6)."""
LOG_TOPIC_ID = "firn.log-topic-id"
"""Beside it: the id of the topic, because a topic that is created again has the same name."""
LOG_SKIP = "firn.log-skip"
"""`true` on a commit by which a user moves the log's position, also backwards (rule 6.5)."""

LOG_TOPIC = "firn.log.topic"
LOG_PREFIX = "firn.log."
LOG_WRITER = "log"
"""The name of the writer that brings the records of a table's log."""

BASE = "base"
CHANGE = "change"
QUARANTINE = "quarantine"
"""The name of the table of a log's bad records, beside the stores (docs/protocols.md, rule 6.11)."""
MERGED = "merged"
"""The name of the exact SQL view of a keyed table, beside its stores."""


class KeyScope(StrEnum):
    """The scope in which a key is unique."""

    GLOBAL = "global"  # in the whole table: a key may move to another partition
    PARTITION = "partition"  # in its partition: a key never changes its partition


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """A keyed table's key; it never changes."""

    primary_key: tuple[str, ...]
    sequence_field: str | None = None
    scope: KeyScope = KeyScope.GLOBAL
    is_insert_only: bool = False
    """Whether the first row of a key wins (docs/protocols.md, rule 1.9)."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> KeySpec | None:
        """The key of a table's properties; None if they name no primary key, Invalid if they contradict each other."""
        if PRIMARY_KEY not in properties:
            return None
        columns = tuple(column.strip() for column in properties[PRIMARY_KEY].split(","))
        if not all(columns) or len(set(columns)) != len(columns):
            raise Invalid(
                f"{PRIMARY_KEY}={properties[PRIMARY_KEY]!r}: expected different column names, separated by commas"
            )
        scope = properties.get(KEY_SCOPE, KeyScope.GLOBAL)
        if scope not in tuple(KeyScope):
            raise Invalid(f"{KEY_SCOPE}={scope!r}: expected one of {', '.join(KeyScope)}")
        sequence_field = properties.get(SEQUENCE_FIELD)
        return cls(
            primary_key=columns,
            sequence_field=sequence_field,
            scope=KeyScope(scope),
            is_insert_only=_read_insert_only(properties, sequence_field),
        )

    def to_properties(self) -> dict[str, str]:
        """The key as properties of a store."""
        properties = {PRIMARY_KEY: ",".join(self.primary_key), KEY_SCOPE: str(self.scope)}
        if self.sequence_field:
            properties[SEQUENCE_FIELD] = self.sequence_field
        if self.is_insert_only:
            properties[INSERT_ONLY] = "true"
        return properties


def _read_insert_only(properties: Mapping[str, str], sequence_field: str | None) -> bool:
    value = properties.get(INSERT_ONLY, "false")
    if value not in ("true", "false"):
        raise Invalid(f"{INSERT_ONLY}={value!r}: expected true or false")
    if value == "true" and sequence_field:
        raise Invalid(
            f"{INSERT_ONLY} and {SEQUENCE_FIELD} exclude each other: the first row of a key wins, whatever its value",
            hint="leave out one of the two",
        )
    return value == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable:
    """A keyed table's stores, with the facts of the last commit on either.

    `watermark` is the change store's sequence number up to which base contains all changes; `pending_*` counts the
    appended changes above it. `version` numbers the pairs of store heads that readers see.
    """

    relation_id: RelationId
    spec: KeySpec
    base_id: RelationId
    change_id: RelationId
    watermark: int = 0
    change_sequence: int = 0
    pending_rows: int = 0
    pending_bytes: int = 0
    pending_commits: int = 0
    pending_since: datetime | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One pair of store heads that readers see. Time travel and expiry use these pairs."""

    relation_id: RelationId
    version: int
    base_snapshot_id: int | None
    change_snapshot_id: int | None
    committed_at: datetime
