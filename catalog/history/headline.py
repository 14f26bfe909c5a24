"""Changes as text for people: one line for each change, a headline for the commit, and SQL as a line diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import SequenceMatcher

from catalog.history.change import Change, ChangeKind
from catalog.history.commit import CommitEvent

_IN_HEADLINE = 2
_LONG = 60

Line = tuple[str, str]
"""A mark (`+`, `-` or a blank) and the text of a line."""


def describe_change(change: Change) -> str:
    """One change as a phrase: `renamed column a to b`."""
    return _PHRASES[change.kind](change)


def write_headline(event: CommitEvent) -> str:
    """A commit in one line: its rows and files, or the first of its changes."""
    explicit = [change for change in event.changes if not _is_implied(change, event)]
    phrases = [describe_change(change) for change in explicit[:_IN_HEADLINE]]
    if event.snapshot_id is not None:
        phrases = [_describe_data(event), *phrases]
    more = len(explicit) - _IN_HEADLINE
    return "; ".join([*phrases, f"and {more} more"] if more > 0 else phrases) or event.operation


def diff_lines(before: str | None, after: str | None) -> list[Line]:
    """The lines of both texts, each marked as removed, added or unchanged."""
    old, new = (before or "").splitlines(), (after or "").splitlines()
    lines: list[Line] = []
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [(" ", line) for line in old[old_from:old_to]]
        else:
            lines += [("-", line) for line in old[old_from:old_to]]
            lines += [("+", line) for line in new[new_from:new_to]]
    return lines


def _is_implied(change: Change, event: CommitEvent) -> bool:
    """Whether the headline omits this change.

    The row counts describe a new snapshot, and main always moves to it. The details of the entry list the properties of
    a new table.
    """
    if change.kind in (ChangeKind.SNAPSHOT, ChangeKind.BRANCH) and event.snapshot_id is not None:
        return change.kind is ChangeKind.SNAPSHOT or change.name == "main"
    born = any(other.kind is ChangeKind.CREATED for other in event.changes)
    return born and change.kind not in (ChangeKind.CREATED, ChangeKind.REGISTERED)


def _describe_data(event: CommitEvent) -> str:
    rows = _format_count(event.added_rows, event.removed_rows, "row")
    files = _format_count(event.added_files, event.removed_files, "file")
    counted = ", ".join(part for part in (rows, files) if part)
    return f"{event.operation}: {counted}" if counted else event.operation


def _format_count(added: int, removed: int, noun: str) -> str:
    parts = [f"+{added:,}"] * bool(added) + [f"-{removed:,}"] * bool(removed)
    plural = "" if (added, removed) in ((1, 0), (0, 1)) else "s"
    return f"{' '.join(parts)} {noun}{plural}" if parts else ""


def _shorten_value(text: str | None) -> str:
    shown = (text or "").replace("\n", " ")
    shown = shown if len(shown) <= _LONG else shown[:_LONG] + "…"
    return shown or "''"


def _describe_property(change: Change) -> str:
    if change.after is None:
        return f"removed property {change.name} (was {_shorten_value(change.before)})"
    was = "" if change.before is None else f" (was {_shorten_value(change.before)})"
    return f"set property {change.name} to {_shorten_value(change.after)}{was}"


def _describe_ref(change: Change) -> str:
    ref = f"{change.kind} {change.name}"
    if change.before is None:
        return f"created {ref} at snapshot {change.after}"
    if change.after is None:
        return f"removed {ref}, which was at snapshot {change.before}"
    return f"moved {ref} from snapshot {change.before} to {change.after}"


def _describe_retention(change: Change) -> str:
    return f"{change.name}: {change.after or 'kept by the rules of the table'}"


def _describe_comment(change: Change) -> str:
    if change.after is None:
        return f"removed the comment of column {change.name}"
    return f"set the comment of column {change.name} to {_shorten_value(change.after)}"


def _describe_default(change: Change) -> str:
    if change.after is None:
        return f"removed the default of column {change.name} (was {_shorten_value(change.before)})"
    return f"set the default of column {change.name} to {_shorten_value(change.after)}"


def _describe_move(change: Change) -> str:
    where = "to the front" if change.after == "first" else str(change.after)
    return f"moved column {change.name} {where}"


def _describe_value(phrase: str, nothing: str) -> Callable[[Change], str]:
    def describe(change: Change) -> str:
        was = "" if change.before is None else f" (was {_shorten_value(change.before)})"
        return f"{phrase} {_shorten_value(change.after) if change.after is not None else nothing}{was}"

    return describe


def _describe_sql(change: Change) -> str:
    if change.before is None:
        return f"added SQL for {change.name}"
    return f"{'removed' if change.after is None else 'changed'} the SQL for {change.name}"


def _describe_statistics(change: Change) -> str:
    return f"{'removed' if change.after is None else 'set'} statistics of snapshot {change.name}"


def _describe_encryption_key(change: Change) -> str:
    return f"{'removed' if change.after is None else 'added'} encryption key {change.name}"


def _describe_expiry(change: Change) -> str:
    return f"expired {int(change.before or 0):,} snapshot{'' if change.before == '1' else 's'}"


_PHRASES: Mapping[ChangeKind, Callable[[Change], str]] = {
    ChangeKind.CREATED: lambda change: f"created with {_describe_columns(change)}",
    ChangeKind.REGISTERED: lambda change: f"registered from {change.after}",
    ChangeKind.DROPPED: lambda change: change.after or "dropped",
    ChangeKind.RESTORED: lambda _: "restored",
    ChangeKind.RENAMED: lambda change: f"renamed from {change.before} to {change.after}",
    ChangeKind.REPLACED: lambda _: "replaced by another table",
    ChangeKind.COLUMN_ADDED: lambda change: f"added column {change.name} ({_shorten_value(change.after)})",
    ChangeKind.COLUMN_DROPPED: lambda change: f"dropped column {change.name} ({_shorten_value(change.before)})",
    ChangeKind.COLUMN_RENAMED: lambda change: f"renamed column {change.before} to {change.after}",
    ChangeKind.COLUMN_TYPE: lambda change: (
        f"changed the type of column {change.name}"
        f" from {_shorten_value(change.before)} to {_shorten_value(change.after)}"
    ),
    ChangeKind.COLUMN_NULLS: lambda change: f"made column {change.name} {change.after}",
    ChangeKind.COLUMN_COMMENT: _describe_comment,
    ChangeKind.COLUMN_DEFAULT: _describe_default,
    ChangeKind.COLUMN_MOVED: _describe_move,
    ChangeKind.IDENTIFIER: _describe_value("rows are identified by", "no column"),
    ChangeKind.PARTITIONING: _describe_value("partitioned by", "nothing"),
    ChangeKind.SORT_ORDER: _describe_value("sorted by", "nothing"),
    ChangeKind.PROPERTY: _describe_property,
    ChangeKind.FORMAT: _describe_value("format version", "unknown"),
    ChangeKind.LOCATION: _describe_value("new files go to", "nowhere"),
    ChangeKind.SNAPSHOT: lambda change: f"added snapshot {change.name} ({change.after})",
    ChangeKind.BRANCH: _describe_ref,
    ChangeKind.TAG: _describe_ref,
    ChangeKind.RETENTION: _describe_retention,
    ChangeKind.EXPIRED: _describe_expiry,
    ChangeKind.STATISTICS: _describe_statistics,
    ChangeKind.ENCRYPTION_KEY: _describe_encryption_key,
    ChangeKind.SQL: _describe_sql,
    ChangeKind.VIEW_VERSION: _describe_value("reads as version", "none"),
    ChangeKind.VIEW_DEFAULTS: _describe_value("looks names up in", "no namespace"),
    ChangeKind.MORE: lambda change: f"{int(change.after or 0):,} more changes, not kept",
}


def _describe_columns(change: Change) -> str:
    return _shorten_value(change.after) if change.after else "no columns"
