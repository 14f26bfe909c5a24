"""Optimizer groups and their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.jobs.job import JobStatus
from catalog.jobs.optimizer_group import Group, GroupName, check_droppable, check_group
from catalog.ports.store import Database


@dataclass(frozen=True)
class Groups:
    """Reads and changes optimizer groups."""

    database: Database

    def list(self) -> Sequence[Group]:
        """All groups by name, including the default group."""
        with self.database.reading() as uow:
            return uow.groups.list()

    def get(self, name: GroupName) -> Group:
        """One group; raises NotFound."""
        with self.database.reading() as uow:
            return uow.groups.get(name)

    def create(self, group: Group) -> Group:
        """Create a group; raises AlreadyExists when another one has the name."""
        with self.database.writing() as uow:
            group = replace(check_group(group), created_at=uow.now())
            uow.groups.add(group)
        return group

    def change(self, group: Group) -> Group:
        """Replace all settings of a group; raises NotFound."""
        with self.database.writing() as uow:
            group = replace(check_group(group), created_at=uow.groups.get(group.name).created_at)
            uow.groups.put(group)
        return group

    def alter(self, name: GroupName, settings: Mapping[str, Any]) -> Group:
        """Change some settings of a group; all others stay, also those of concurrent requests."""
        with self.database.writing() as uow:
            group = check_group(replace(uow.groups.get(name), **settings))
            uow.groups.put(group)
        return group

    def drop(self, name: GroupName) -> None:
        """Drop a group; raises Conflict while it has optimizers or active jobs. Policies may still name it."""
        active = [status for status in JobStatus if status.is_active]
        with self.database.writing() as uow:
            uow.groups.get(name)
            optimizers = sum(optimizer.group == name for optimizer in uow.optimizers.list())
            jobs = sum(job.group == name for job in uow.jobs.with_status(active))
            check_droppable(name, optimizers=optimizers, jobs=jobs)
            uow.groups.remove(name)
            uow.launches.unset(name)  # or the server would start optimizers for a group that no user can configure
