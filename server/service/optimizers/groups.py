"""Groups of optimizers, as operators set them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.jobs.job import JobStatus
from catalog.jobs.optimizer_group import Group, GroupName, check_droppable, check_group
from catalog.ports.store import Database


@dataclass(frozen=True)
class Groups:
    """The groups of one server."""

    database: Database

    def list(self) -> Sequence[Group]:
        """By name, the default one among them."""
        with self.database.reading() as uow:
            return uow.groups.list()

    def get(self, name: GroupName) -> Group:
        """NotFound when there is none."""
        with self.database.reading() as uow:
            return uow.groups.get(name)

    def create(self, group: Group) -> Group:
        """AlreadyExists when there is one of this name."""
        with self.database.writing() as uow:
            group = replace(check_group(group), created_at=uow.now())
            uow.groups.add(group)
        return group

    def change(self, group: Group) -> Group:
        """Replace what is set for it; NotFound when there is none."""
        with self.database.writing() as uow:
            group = replace(check_group(group), created_at=uow.groups.get(group.name).created_at)
            uow.groups.put(group)
        return group

    def alter(self, name: GroupName, settings: Mapping[str, Any]) -> Group:
        """Some of its settings; what is not named stays, also what somebody else sets meanwhile."""
        with self.database.writing() as uow:
            group = check_group(replace(uow.groups.get(name), **settings))
            uow.groups.put(group)
        return group

    def drop(self, name: GroupName) -> None:
        """Conflict while somebody works in it or waits for it. Tables may still name it by policy."""
        active = [status for status in JobStatus if status.is_active]
        with self.database.writing() as uow:
            uow.groups.get(name)
            optimizers = sum(optimizer.group == name for optimizer in uow.optimizers.list())
            jobs = sum(job.group == name for job in uow.jobs.with_status(active))
            check_droppable(name, optimizers=optimizers, jobs=jobs)
            uow.groups.remove(name)
            uow.launches.unset(name)  # or optimizers would be started for it that nobody can set any more
