"""Groups of optimizers: the slots that a job may use, and the slots reserved for short jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import NewType

from catalog.errors import Conflict, Invalid

GroupName = NewType("GroupName", str)

DEFAULT_GROUP = GroupName("default")
MOST_RESERVED = 10_000
LONGEST_DESCRIPTION = 1_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The settings of a group's jobs.

    A group works without an entry: optimizers name it when they register, tables by policy. Then these defaults apply.
    """

    name: GroupName
    description: str = ""
    reserved_slots: int = 1
    """Slots that long jobs leave free for short ones. Long jobs always have one slot."""
    catalog_quota: float = 1.0
    """The share of the group's hourly slot time above which a catalog's jobs get later deadlines; 1 turns this off."""
    created_at: datetime | None = None
    """When a user created it; None for the default group."""


def parse_group_name(text: str) -> GroupName:
    """The name of a group; Invalid if it does not fit into a label, a command line or a pod's name."""
    if _NAME.fullmatch(text) is None:
        raise Invalid(f"{text!r} is no group of optimizers", hint="use 1 to 50 letters, digits, dashes and underscores")
    return GroupName(text)


def check_group(group: Group) -> Group:
    """The group itself; Invalid if a setting is out of bounds."""
    parse_group_name(group.name)
    if not 0 <= group.reserved_slots <= MOST_RESERVED:
        raise Invalid(f"{group.reserved_slots} slots cannot be reserved: 0 to {MOST_RESERVED:,} can")
    if not 0 < group.catalog_quota <= 1:
        raise Invalid(f"{group.catalog_quota} is no quota: it is a share above 0, and 1 at most")
    if len(group.description) > LONGEST_DESCRIPTION:
        raise Invalid(f"the description is longer than {LONGEST_DESCRIPTION:,} characters")
    return group


def check_droppable(name: GroupName, *, optimizers: int, jobs: int) -> None:
    """Conflict for the default group, and for a group with optimizers or jobs."""
    if name == DEFAULT_GROUP:
        raise Conflict("the group default is always there")
    if optimizers:
        raise Conflict(f"{optimizers} optimizers are registered in group {name}", hint="stop them first")
    if jobs:
        raise Conflict(f"{jobs} jobs of group {name} have not ended", hint="cancel them, or wait")
