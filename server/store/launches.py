"""Launches of optimizers in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import LaunchStatus
from catalog.launch.record import GroupLaunch, LaunchRecord, Process
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind, Scaling
from server.store.job_rows import GroupLaunchRow, LaunchRow
from server.store.session import ReadSession
from server.store.upsert import upsert

_OVER = [status for status in LaunchStatus if status.is_over]
_SAME = ("started_at", "busy_at", "asked_at", "ended_at", "reason")


@dataclass(frozen=True)
class SqlLaunches:
    """See catalog.ports.launch.Launches."""

    session: ReadSession

    def settings(self) -> Sequence[GroupLaunch]:
        """List the launch settings by group."""
        rows = self.session.scalars(select(GroupLaunchRow).order_by(GroupLaunchRow.group_name))
        return [
            GroupLaunch(group=GroupName(row.group_name), launch=_launch(row.settings), changed_at=row.changed_at)
            for row in rows
        ]

    def set(self, settings: GroupLaunch) -> None:
        """Insert or replace launch settings."""
        values = {"group_name": settings.group, "settings": asdict(settings.launch), "changed_at": settings.changed_at}
        upsert(self.session, GroupLaunchRow, values)

    def unset(self, group: GroupName) -> None:
        """Remove the launch settings of a group."""
        self.session.execute(delete(GroupLaunchRow).where(GroupLaunchRow.group_name == group))

    def put(self, launched: LaunchRecord) -> None:
        """Insert or replace a launch."""
        process = launched.process
        values = {name: getattr(launched, name) for name in _SAME}
        values |= {"id": launched.id, "group_name": launched.group, "kind": launched.kind.value}
        values |= {"status": launched.status.value, "process": None if process is None else asdict(process)}
        upsert(self.session, LaunchRow, values)

    def unfinished(self) -> Sequence[LaunchRecord]:
        """List unfinished launches, oldest first."""
        query = select(LaunchRow).where(LaunchRow.status.not_in(_OVER)).order_by(LaunchRow.started_at, LaunchRow.id)
        return [_launched(row) for row in self.session.scalars(query)]

    def newest(self, group: GroupName, limit: int) -> Sequence[LaunchRecord]:
        """List the newest launches of a group, newest first."""
        query = (
            select(LaunchRow).where(LaunchRow.group_name == group).order_by(LaunchRow.started_at.desc(), LaunchRow.id)
        )
        return [_launched(row) for row in self.session.scalars(query.limit(limit))]

    def find(self, launch_id: LaunchId) -> LaunchRecord | None:
        """Find a launch by id."""
        row = self.session.get(LaunchRow, launch_id)
        return None if row is None else _launched(row)

    def remove_ended_before(self, moment: datetime) -> int:
        """Remove launches that ended before a time; returns their number."""
        old = delete(LaunchRow).where(LaunchRow.ended_at < moment).returning(LaunchRow.id)
        return len(self.session.execute(old).all())


def _launch(values: Mapping[str, Any]) -> Launch:
    return Launch(
        **{
            **values,
            "kind": LaunchKind(values["kind"]),
            "scaling": Scaling(**values["scaling"]),
            "deploy_mode": DeployMode(values["deploy_mode"]),
            **{name: tuple(values.get(name, ())) for name in ("py_files", "jars", "file_systems")},
        }
    )


def _launched(row: LaunchRow) -> LaunchRecord:
    return LaunchRecord(
        id=LaunchId(row.id),
        group=GroupName(row.group_name),
        kind=LaunchKind(row.kind),
        status=LaunchStatus(row.status),
        process=None if row.process is None else Process(**row.process),
        **{name: getattr(row, name) for name in _SAME},
    )
