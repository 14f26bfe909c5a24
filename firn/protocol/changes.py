"""The kinds of change feeds (docs/changes.md)."""

from __future__ import annotations

from enum import StrEnum


class Images(StrEnum):
    """What a feed says of a changed row."""

    AFTER = "after"  # the row after the change; of a deleted row, the row before
    BOTH = "both"  # the row before and after the change


class Each(StrEnum):
    """Which changes a feed has."""

    NET = "net"  # one for each key
    CHANGE = "change"  # every one that took effect
