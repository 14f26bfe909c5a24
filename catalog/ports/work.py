"""The database, seen by those who plan and hand out background work; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from catalog.group import Group, GroupName


class Groups(Protocol):
    """Groups of optimizers; the default one is always there."""

    def add(self, group: Group) -> None: ...
    def get(self, name: GroupName) -> Group: ...
    def settings_of(self, name: GroupName) -> Group:
        """What holds for a group whether somebody has made it or not."""

    def list(self) -> Sequence[Group]:
        """By name."""

    def put(self, group: Group) -> None: ...
    def remove(self, name: GroupName) -> None: ...
