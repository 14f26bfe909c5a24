"""Imports of existing tables: the kinds of entries and their states."""

from __future__ import annotations

from enum import StrEnum


class EntryKind(StrEnum):
    """What was found."""

    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"


class EntryState(StrEnum):
    """What became of it."""

    FOUND = "found"  # not looked at yet
    READY = "ready"  # a dry run would have registered it
    REGISTERED = "registered"
    REFRESHED = "refreshed"  # it was there; its pointer followed the source
    THERE = "there"  # it was there already
    CONFLICT = "conflict"  # the catalog has something else in its place
    AMBIGUOUS = "ambiguous"  # nobody can say which of its metadata files is the newest
    SKIPPED = "skipped"  # the metadata is unreadable, probably because a write was cut off
    FAILED = "failed"

    @property
    def needs_a_person(self) -> bool:
        """Whether somebody has to look at it."""
        return self in (EntryState.CONFLICT, EntryState.AMBIGUOUS, EntryState.FAILED)
