"""One change of a commit. It is stored with the commit's event, so it outlives the metadata files.

All changes have one shape: a subject, its value before and its value after. So a new kind of change needs no new
column, wire type or page. Phrases for people are derived from it, never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from firn.protocol.history import Topic

MAX_CHANGES = 200
"""One commit may replace a table of ten thousand columns: the event only counts the changes beyond this number."""
LONGEST_TEXT = 2_000
LONGEST_SQL = 32_000
_CUT = " …"


class ChangeKind(StrEnum):
    """The kind of change. `Change.name` names its subject."""

    CREATED = "created"  # `after` lists the columns
    REGISTERED = "registered"  # `after` is the metadata file
    DROPPED = "dropped"  # `after` says how, if it was not a plain drop
    RESTORED = "restored"
    RENAMED = "renamed"
    REPLACED = "replaced"  # the table got another UUID
    COLUMN_ADDED = "column added"  # `after` is its type
    COLUMN_DROPPED = "column dropped"
    COLUMN_RENAMED = "column renamed"  # `before` and `after` are names
    COLUMN_TYPE = "column type"
    COLUMN_NULLS = "column nulls"  # `required` or `optional`
    COLUMN_COMMENT = "column comment"
    COLUMN_DEFAULT = "column default"
    COLUMN_MOVED = "column moved"  # `after column` or `first`
    IDENTIFIER = "identifier"  # the identifier columns
    PARTITIONING = "partitioning"
    SORT_ORDER = "sort order"
    PROPERTY = "property"
    FORMAT = "format version"
    LOCATION = "location"
    SNAPSHOT = "snapshot"  # `name` is its id, `before` its parent, `after` its operation
    BRANCH = "branch"  # `before` and `after` are snapshot ids
    TAG = "tag"
    RETENTION = "retention"  # `name` is the ref's
    EXPIRED = "expired"  # `before` is the number of snapshots
    STATISTICS = "statistics"  # `name` is the snapshot's id; `before` and `after` are paths
    ENCRYPTION_KEY = "encryption key"
    SQL = "sql"  # `name` is the dialect
    VIEW_VERSION = "view version"
    VIEW_DEFAULTS = "view defaults"  # the default catalog and namespace of names in its SQL
    MORE = "more"  # `after` is the number of changes that are not kept


_TOPICS: Mapping[ChangeKind, Topic] = {
    **dict.fromkeys(
        (
            ChangeKind.CREATED,
            ChangeKind.REGISTERED,
            ChangeKind.DROPPED,
            ChangeKind.RESTORED,
            ChangeKind.RENAMED,
            ChangeKind.REPLACED,
        ),
        Topic.LIFE,
    ),
    **{kind: Topic.SCHEMA for kind in ChangeKind if kind.startswith("column")},
    ChangeKind.IDENTIFIER: Topic.SCHEMA,
    ChangeKind.SQL: Topic.SCHEMA,
    ChangeKind.VIEW_VERSION: Topic.SCHEMA,
    ChangeKind.VIEW_DEFAULTS: Topic.SCHEMA,
    **dict.fromkeys((ChangeKind.PARTITIONING, ChangeKind.SORT_ORDER), Topic.LAYOUT),
    ChangeKind.FORMAT: Topic.LAYOUT,
    ChangeKind.LOCATION: Topic.LAYOUT,
    ChangeKind.PROPERTY: Topic.PROPERTIES,
    ChangeKind.ENCRYPTION_KEY: Topic.PROPERTIES,
    ChangeKind.SNAPSHOT: Topic.DATA,
    **dict.fromkeys((ChangeKind.BRANCH, ChangeKind.TAG, ChangeKind.RETENTION), Topic.REFS),
    **dict.fromkeys((ChangeKind.EXPIRED, ChangeKind.STATISTICS), Topic.MAINTENANCE),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change: its subject, and the subject's value before and after. None means that it did not exist."""

    kind: ChangeKind
    name: str = ""
    before: str | None = None
    after: str | None = None

    def to_json(self) -> dict[str, str]:
        """The change as the database stores it."""
        stored = {"kind": str(self.kind), "name": self.name, "before": self.before, "after": self.after}
        return {key: value for key, value in stored.items() if value}

    @classmethod
    def from_json(cls, stored: Mapping[str, str]) -> Change:
        """The change from its stored form."""
        return cls(ChangeKind(stored["kind"]), stored.get("name", ""), stored.get("before"), stored.get("after"))


def keep_changes(changes: Iterable[Change]) -> list[Change]:
    """The changes as an event stores them: limits their number and the length of each."""
    all_changes = list(changes)
    short = [_shorten_change(change) for change in all_changes[:MAX_CHANGES]]
    omitted = len(all_changes) - len(short)
    return [*short, Change(ChangeKind.MORE, after=str(omitted))] if omitted else short


def _shorten_change(change: Change) -> Change:
    longest = LONGEST_SQL if change.kind is ChangeKind.SQL else LONGEST_TEXT
    return Change(
        change.kind,
        _cut_off(change.name, LONGEST_TEXT),
        _cut_text(change.before, longest),
        _cut_text(change.after, longest),
    )


def _cut_text(text: str | None, longest: int) -> str | None:
    return None if text is None else _cut_off(text, longest)


def _cut_off(text: str, longest: int) -> str:
    # No database stores half a surrogate pair.
    storable = text.encode(errors="replace").decode()
    return storable if len(storable) <= longest else storable[:longest] + _CUT


def list_topics(changes: Sequence[Change]) -> frozenset[Topic]:
    """The topics of a commit with these changes. Main's move to a new snapshot is no change of refs."""
    moved_by_data = any(change.kind is ChangeKind.SNAPSHOT for change in changes)
    return frozenset(
        _TOPICS[change.kind]
        for change in changes
        if change.kind in _TOPICS and not (moved_by_data and change.kind is ChangeKind.BRANCH and change.name == "main")
    )


def net_changes(changes: Iterable[Change]) -> list[Change]:
    """The sum of many changes, oldest first: each subject's first and last value; none where both are equal."""
    ends: dict[tuple[ChangeKind, str], Change] = {}
    for change in changes:
        subject = (change.kind, change.name)
        first = ends.get(subject, change)
        ends[subject] = Change(change.kind, change.name, first.before, change.after)
    return [change for change in ends.values() if change.before != change.after]
