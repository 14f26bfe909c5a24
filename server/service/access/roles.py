"""Roles and what they are granted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catalog.access import Caller, Grant, Privilege, Role, RoleName, Securable, checked_name
from catalog.errors import Conflict, Forbidden
from catalog.ports.store import Database
from server.service.access.identities import Identities
from server.service.access.visible import Visible


@dataclass(frozen=True)
class Roles:
    """The roles of one server."""

    database: Database
    identities: Identities

    def create(self, name: str, description: str) -> Role:
        """A role that gives nothing yet; AlreadyExists when the name is taken."""
        with self.database.writing() as uow:
            role = Role(name=RoleName(checked_name(name, "role")), description=description, created_at=uow.now())
            uow.roles.add(role)
        return role

    def list(self, visible: Visible) -> Sequence[Role]:
        """All, each with those of its grants whose objects the reader sees."""
        with self.database.reading() as uow:
            return [_shown(role, visible) for role in uow.roles.list()]

    def show(self, name: RoleName, visible: Visible) -> tuple[Role, Sequence[str]]:
        """One and the names of those who have it; NotFound when there is none."""
        with self.database.reading() as uow:
            role = uow.roles.get(name)
            members = uow.principals.names(uow.roles.members(name))
        return _shown(role, visible), sorted(members.values())

    def remove(self, name: RoleName) -> None:
        """Take it from all who have it; Conflict for one that came with the server."""
        with self.database.writing() as uow:
            _check_own(uow.roles.get(name))
            uow.roles.remove(name)
        self.identities.forget()

    def grant(self, caller: Caller, name: RoleName, on: Securable, privileges: Collection[Privilege]) -> Role:
        """Forbidden unless the caller has `grant` there and each of these privileges."""
        with self.database.writing() as uow:
            before = uow.roles.get(name)
            for privilege in privileges:
                grant = Grant(on, privilege)
                if not caller.rights.covers(grant):
                    raise _may_not_give(grant)
                _check_own(before)
                uow.roles.grant(name, grant)
            role = uow.roles.get(name)
        self.identities.forget()
        return _shown(role, Visible(caller.rights))

    def revoke(self, caller: Caller, name: RoleName, on: Securable, privileges: Collection[Privilege]) -> Role:
        """Forbidden unless the caller has `grant` there."""
        with self.database.writing() as uow:
            before = uow.roles.get(name)
            if not caller.rights.has(Privilege.GRANT, on):
                raise _may_not_give(Grant(on, Privilege.GRANT))
            _check_own(before)
            for privilege in privileges:
                uow.roles.revoke(name, Grant(on, privilege))
            role = uow.roles.get(name)
        self.identities.forget()
        return _shown(role, Visible(caller.rights))


def check_may_give(caller: Caller, role: Role) -> None:
    """Forbidden unless the caller may pass on everything that the role gives."""
    for grant in sorted(role.grants):
        if not caller.rights.covers(grant):
            raise _may_not_give(grant) if caller.rights.sees(grant.on) else _may_not_give(None)


def _may_not_give(grant: Grant | None) -> Forbidden:
    """The same words whether the thing exists or not."""
    what = "everything that this role gives" if grant is None else f"{grant.privilege} on {grant.on}"
    return Forbidden(f"you may not pass on {what}", hint="that takes `grant` there, and the privilege itself")


def _check_own(role: Role) -> None:
    if role.is_builtin:
        raise Conflict(f"the role {role.name} came with the server and stays as it is", hint="make one of your own")


def _shown(role: Role, visible: Visible) -> Role:
    grants = frozenset(grant for grant in role.grants if visible.sees(grant.on))
    return Role(name=role.name, description=role.description, created_at=role.created_at, grants=grants)
