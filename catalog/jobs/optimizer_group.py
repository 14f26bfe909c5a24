"""Groups of optimizers: whose slots a job may use, and how many of them are kept free for short ones."""

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
    """What holds for the jobs of one group.

    A group needs no entry of its own to work: optimizers name it when they register, tables by policy. Until somebody
    sets something else for it, what stands here holds.
    """

    name: GroupName
    description: str = ""
    reserved_slots: int = 1
    """Slots that long jobs leave free for short ones. One slot is theirs in any case, or they would never run."""
    catalog_quota: float = 1.0
    """Share of the group's time within an hour from which on a catalog's jobs stand back; 1 means never."""
    created_at: datetime | None = None
    """When somebody made it; None for the default group."""


def parse_group_name(text: str) -> GroupName:
    """The name of a group; Invalid for one that would not fit into a label, a command line or the name of a pod."""
    if _NAME.fullmatch(text) is None:
        raise Invalid(f"{text!r} is no group of optimizers", hint="use 1 to 50 letters, digits, dashes and underscores")
    return GroupName(text)


def check_group(group: Group) -> Group:
    """The group itself; Invalid when a setting is out of its bounds."""
    parse_group_name(group.name)
    if not 0 <= group.reserved_slots <= MOST_RESERVED:
        raise Invalid(f"{group.reserved_slots} slots cannot be reserved: 0 to {MOST_RESERVED:,} can")
    if not 0 < group.catalog_quota <= 1:
        raise Invalid(f"{group.catalog_quota} is no quota: it is a share above 0, and 1 at most")
    if len(group.description) > LONGEST_DESCRIPTION:
        raise Invalid(f"the description is longer than {LONGEST_DESCRIPTION:,} characters")
    return group


def check_droppable(name: GroupName, *, optimizers: int, jobs: int) -> None:
    """Conflict for the default group, and for one that somebody works in or waits for."""
    if name == DEFAULT_GROUP:
        raise Conflict("the group default is always there")
    if optimizers:
        raise Conflict(f"{optimizers} optimizers are registered in group {name}", hint="stop them first")
    if jobs:
        raise Conflict(f"{jobs} jobs of group {name} have not ended", hint="cancel them, or wait")
