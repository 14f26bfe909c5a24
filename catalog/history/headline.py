"""Changes as people read them: one line each, a headline for the commit, and SQL as a line diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import SequenceMatcher

from catalog.history.change import Change, ChangeKind
from catalog.history.commit import CommitEvent

_IN_HEADLINE = 2
_LONG = 60

Line = tuple[str, str]
"""`+`, `-` or a blank, and the text of a line."""


def describe_change(change: Change) -> str:
    """One change as a phrase: `renamed column a to b`."""
    return _WORDS[change.kind](change)


def write_headline(event: CommitEvent) -> str:
    """What a commit did, in one line: its rows and files, or the first of its changes."""
    listed = [one for one in event.changes if not _goes_without_saying(one, event)]
    said = [describe_change(one) for one in listed[:_IN_HEADLINE]]
    if event.snapshot_id is not None:
        said = [_data(event), *said]
    more = len(listed) - _IN_HEADLINE
    return "; ".join([*said, f"and {more} more"] if more > 0 else said) or event.operation


def diff_lines(before: str | None, after: str | None) -> list[Line]:
    """The lines of both texts, each marked as removed, added or the same."""
    old, new = (before or "").splitlines(), (after or "").splitlines()
    lines: list[Line] = []
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [(" ", line) for line in old[old_from:old_to]]
        else:
            lines += [("-", line) for line in old[old_from:old_to]]
            lines += [("+", line) for line in new[new_from:new_to]]
    return lines


def _goes_without_saying(change: Change, event: CommitEvent) -> bool:
    """A new snapshot is told by its rows, and that main follows it is what snapshots are for.

    What a new table begins with is told when its entry is opened.
    """
    if change.kind in (ChangeKind.SNAPSHOT, ChangeKind.BRANCH) and event.snapshot_id is not None:
        return change.kind is ChangeKind.SNAPSHOT or change.name == "main"
    born = any(one.kind is ChangeKind.CREATED for one in event.changes)
    return born and change.kind not in (ChangeKind.CREATED, ChangeKind.REGISTERED)


def _data(event: CommitEvent) -> str:
    rows = _count(event.added_rows, event.removed_rows, "row")
    files = _count(event.added_files, event.removed_files, "file")
    counted = ", ".join(part for part in (rows, files) if part)
    return f"{event.operation}: {counted}" if counted else event.operation


def _count(added: int, removed: int, noun: str) -> str:
    parts = [f"+{added:,}"] * bool(added) + [f"-{removed:,}"] * bool(removed)
    plural = "" if (added, removed) in ((1, 0), (0, 1)) else "s"
    return f"{' '.join(parts)} {noun}{plural}" if parts else ""


def _value(text: str | None) -> str:
    shown = (text or "").replace("\n", " ")
    shown = shown if len(shown) <= _LONG else shown[:_LONG] + "…"
    return shown or "''"


def _property(change: Change) -> str:
    if change.after is None:
        return f"removed property {change.name} (was {_value(change.before)})"
    was = "" if change.before is None else f" (was {_value(change.before)})"
    return f"set property {change.name} to {_value(change.after)}{was}"


def _ref(change: Change) -> str:
    what = f"{change.kind} {change.name}"
    if change.before is None:
        return f"created {what} at snapshot {change.after}"
    if change.after is None:
        return f"removed {what}, which was at snapshot {change.before}"
    return f"moved {what} from snapshot {change.before} to {change.after}"


def _retention(change: Change) -> str:
    return f"{change.name} is {change.after or 'kept by the rules of the table'}"


def _comment(change: Change) -> str:
    if change.after is None:
        return f"removed the comment of column {change.name}"
    return f"set the comment of column {change.name} to {_value(change.after)}"


def _default(change: Change) -> str:
    if change.after is None:
        return f"removed the default of column {change.name} (was {_value(change.before)})"
    return f"set the default of column {change.name} to {_value(change.after)}"


def _moved(change: Change) -> str:
    where = "to the front" if change.after == "first" else str(change.after)
    return f"moved column {change.name} {where}"


def _from_to(what: str, nothing: str) -> Callable[[Change], str]:
    def say(change: Change) -> str:
        was = "" if change.before is None else f" (was {_value(change.before)})"
        return f"{what} {_value(change.after) if change.after is not None else nothing}{was}"

    return say


def _sql(change: Change) -> str:
    if change.before is None:
        return f"added SQL for {change.name}"
    return f"{'removed' if change.after is None else 'changed'} the SQL for {change.name}"


def _statistics(change: Change) -> str:
    return f"{'removed' if change.after is None else 'set'} statistics of snapshot {change.name}"


def _encryption(change: Change) -> str:
    return f"{'removed' if change.after is None else 'added'} encryption key {change.name}"


def _expired(change: Change) -> str:
    return f"expired {int(change.before or 0):,} snapshot{'' if change.before == '1' else 's'}"


_WORDS: Mapping[ChangeKind, Callable[[Change], str]] = {
    ChangeKind.CREATED: lambda change: f"created with {_columns(change)}",
    ChangeKind.REGISTERED: lambda change: f"registered from {change.after}",
    ChangeKind.DROPPED: lambda change: change.after or "dropped",
    ChangeKind.RESTORED: lambda _: "restored",
    ChangeKind.RENAMED: lambda change: f"renamed from {change.before} to {change.after}",
    ChangeKind.REPLACED: lambda _: "replaced by another table",
    ChangeKind.COLUMN_ADDED: lambda change: f"added column {change.name} ({_value(change.after)})",
    ChangeKind.COLUMN_DROPPED: lambda change: f"dropped column {change.name} ({_value(change.before)})",
    ChangeKind.COLUMN_RENAMED: lambda change: f"renamed column {change.before} to {change.after}",
    ChangeKind.COLUMN_TYPE: lambda change: (
        f"changed the type of column {change.name} from {_value(change.before)} to {_value(change.after)}"
    ),
    ChangeKind.COLUMN_NULLS: lambda change: f"made column {change.name} {change.after}",
    ChangeKind.COLUMN_COMMENT: _comment,
    ChangeKind.COLUMN_DEFAULT: _default,
    ChangeKind.COLUMN_MOVED: _moved,
    ChangeKind.IDENTIFIER: _from_to("rows are identified by", "no column"),
    ChangeKind.PARTITIONING: _from_to("partitioned by", "nothing"),
    ChangeKind.SORT_ORDER: _from_to("sorted by", "nothing"),
    ChangeKind.PROPERTY: _property,
    ChangeKind.FORMAT: _from_to("format version", "unknown"),
    ChangeKind.LOCATION: _from_to("new files go to", "nowhere"),
    ChangeKind.SNAPSHOT: lambda change: f"added snapshot {change.name} ({change.after})",
    ChangeKind.BRANCH: _ref,
    ChangeKind.TAG: _ref,
    ChangeKind.RETENTION: _retention,
    ChangeKind.EXPIRED: _expired,
    ChangeKind.STATISTICS: _statistics,
    ChangeKind.ENCRYPTION_KEY: _encryption,
    ChangeKind.SQL: _sql,
    ChangeKind.VIEW_VERSION: _from_to("reads as version", "none"),
    ChangeKind.VIEW_DEFAULTS: _from_to("looks names up in", "no namespace"),
    ChangeKind.MORE: lambda change: f"{int(change.after or 0):,} more changes, not kept",
}


def _columns(change: Change) -> str:
    return _value(change.after) if change.after else "no columns"
