"""Groups of optimizers in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import delete, select

from catalog.errors import AlreadyExists, NotFound
from catalog.jobs.optimizer_group import DEFAULT_GROUP, Group, GroupName
from server.store.job_rows import GroupRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken, upsert

_FIELDS = tuple(field.name for field in fields(Group))


@dataclass(frozen=True)
class SqlGroups:
    """See catalog.ports.work.Groups."""

    session: ReadSession

    def add(self, group: Group) -> None:
        """Add a group; AlreadyExists when the name exists."""
        if group.name == DEFAULT_GROUP or not insert_unless_taken(self.session, GroupRow, _values(group)):
            raise AlreadyExists(f"group {group.name} already exists")

    def get(self, name: GroupName) -> Group:
        """Get a group; NotFound. The default group always exists."""
        row = self.session.get(GroupRow, name)
        if row is None and name != DEFAULT_GROUP:
            raise NotFound(f"group {name} does not exist", hint="see the groups with `firn group list`")
        return Group(name=DEFAULT_GROUP) if row is None else _group(row)

    def settings_of(self, name: GroupName) -> Group:
        """Get the settings of a group, with defaults if nobody has created it."""
        row = self.session.get(GroupRow, name)
        return Group(name=name) if row is None else _group(row)

    def list(self) -> Sequence[Group]:
        """List groups by name, with the default group."""
        rows = self.session.scalars(select(GroupRow))
        groups = {DEFAULT_GROUP: Group(name=DEFAULT_GROUP)} | {GroupName(row.name): _group(row) for row in rows}
        return [groups[name] for name in sorted(groups)]

    def put(self, group: Group) -> None:
        """Insert or replace a group."""
        upsert(self.session, GroupRow, _values(group))

    def remove(self, name: GroupName) -> None:
        """Remove a group."""
        self.session.execute(delete(GroupRow).where(GroupRow.name == name))


def _values(group: Group) -> dict[str, Any]:
    return {name: getattr(group, name) for name in _FIELDS}


def _group(row: GroupRow) -> Group:
    return Group(**{name: getattr(row, name) for name in _FIELDS})
