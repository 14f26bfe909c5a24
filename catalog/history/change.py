"""One thing that a commit changed: kept with the commit's event, so that it outlives the metadata files.

Every change has one shape, a subject and what it was before and after, so that a new kind of change needs no new
column, no new wire type and no new page. What it says in words is derived from that, never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from firn.protocol.history import Topic

MAX_CHANGES = 200
"""A table of ten thousand columns may be replaced in one commit: the rest is only counted."""
LONGEST_TEXT = 2_000
LONGEST_SQL = 32_000
_CUT = " …"


class ChangeKind(StrEnum):
    """What was changed. The subject of a change is named by `Change.name`."""

    CREATED = "created"  # `after` says with what
    REGISTERED = "registered"  # `after` is the metadata file
    DROPPED = "dropped"  # `after` says how, if not simply so
    RESTORED = "restored"
    RENAMED = "renamed"
    REPLACED = "replaced"  # the table got another UUID
    COLUMN_ADDED = "column added"  # `after` is its type
    COLUMN_DROPPED = "column dropped"
    COLUMN_RENAMED = "column renamed"  # before and after are names
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
    SNAPSHOT = "snapshot"  # name is its id, `before` its parent, `after` its operation
    BRANCH = "branch"  # before and after are snapshot ids
    TAG = "tag"
    RETENTION = "retention"  # name is the ref's
    EXPIRED = "expired"  # `before` is how many snapshots
    STATISTICS = "statistics"  # name is the snapshot's id; before and after are paths
    ENCRYPTION_KEY = "encryption key"
    SQL = "sql"  # name is the dialect
    VIEW_VERSION = "view version"
    VIEW_DEFAULTS = "view defaults"  # the catalog and namespace that names in its SQL are looked up in
    MORE = "more"  # `after` is how many changes were not kept


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
    """One change: what it is about, and what that was before and is now. None is: it was not there."""

    kind: ChangeKind
    name: str = ""
    before: str | None = None
    after: str | None = None

    def to_json(self) -> dict[str, str]:
        """As it is stored."""
        stored = {"kind": str(self.kind), "name": self.name, "before": self.before, "after": self.after}
        return {key: value for key, value in stored.items() if value}

    @classmethod
    def from_json(cls, stored: Mapping[str, str]) -> Change:
        """The change that was stored."""
        return cls(ChangeKind(stored["kind"]), stored.get("name", ""), stored.get("before"), stored.get("after"))


def keep_changes(changes: Iterable[Change]) -> list[Change]:
    """The changes as an event keeps them: not too many, each of them not too long."""
    listed = list(changes)
    short = [_shortened(change) for change in listed[:MAX_CHANGES]]
    unrepresentable = len(listed) - len(short)
    return [*short, Change(ChangeKind.MORE, after=str(unrepresentable))] if unrepresentable else short


def _shortened(change: Change) -> Change:
    longest = LONGEST_SQL if change.kind is ChangeKind.SQL else LONGEST_TEXT
    return Change(
        change.kind,
        _cut(change.name, LONGEST_TEXT),
        _cut_text(change.before, longest),
        _cut_text(change.after, longest),
    )


def _cut_text(text: str | None, longest: int) -> str | None:
    return None if text is None else _cut(text, longest)


def _cut(text: str, longest: int) -> str:
    # half a surrogate pair can be in no database
    whole = text.encode(errors="replace").decode()
    return whole if len(whole) <= longest else whole[:longest] + _CUT


def list_topics(changes: Sequence[Change]) -> frozenset[Topic]:
    """What a commit with these changes was about; that main follows a new snapshot says nothing about refs."""
    moved_by_data = any(change.kind is ChangeKind.SNAPSHOT for change in changes)
    return frozenset(
        _TOPICS[change.kind]
        for change in changes
        if change.kind in _TOPICS and not (moved_by_data and change.kind is ChangeKind.BRANCH and change.name == "main")
    )


def net_changes(changes: Iterable[Change]) -> list[Change]:
    """What many changes, oldest first, come to: per subject its first state and its last; nothing where they agree."""
    ends: dict[tuple[ChangeKind, str], Change] = {}
    for change in changes:
        subject = (change.kind, change.name)
        first = ends.get(subject, change)
        ends[subject] = Change(change.kind, change.name, first.before, change.after)
    return [change for change in ends.values() if change.before != change.after]
