"""Roles and what they are granted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catalog.access.privileges import Caller, Grant, Privilege, Role, RoleName, Securable, parse_identifier
from catalog.errors import Conflict, Forbidden, NotFound
from catalog.ports.store import Database, UnitOfWork
from server.service.access.token_check import TokenChecker
from server.service.access.visibility import Visibility


@dataclass(frozen=True)
class Roles:
    """The roles of one server."""

    database: Database
    token_checker: TokenChecker

    def create(self, name: str, description: str) -> Role:
        """A role that gives nothing yet; AlreadyExists when the name is taken."""
        with self.database.writing() as uow:
            role = Role(name=RoleName(parse_identifier(name, "role")), description=description, created_at=uow.now())
            uow.roles.add(role)
        return role

    def list(self, caller: Caller | None) -> Sequence[Role]:
        """Those that the reader has to do with, each with those of its grants whose objects they see.

        All of them for who may grant something somewhere, as they may grant it to any role; others see their own.
        """
        with self.database.reading() as uow:
            return [_shown(role, Visibility.to(caller)) for role in uow.roles.list() if _is_shown_to(caller, role.name)]

    def show(self, name: RoleName, caller: Caller | None) -> tuple[Role, Sequence[str] | None]:
        """One, and the names of those who have it: None for who may not give it. NotFound for one that is not shown."""
        with self.database.reading() as uow:
            if not _is_shown_to(caller, name):
                raise build_no_such_role(name)
            role = uow.roles.get(name)
            members = uow.principals.names(uow.roles.members(name)) if knows_members(caller, role) else None
        return _shown(role, Visibility.to(caller)), None if members is None else sorted(members.values())

    def remove(self, name: RoleName) -> None:
        """Take it from all who have it; Conflict for one that came with the server."""
        with self.database.writing() as uow:
            _check_own(uow.roles.get(name))
            uow.roles.remove(name)
        self.token_checker.forget()

    def grant(self, caller: Caller, name: RoleName, on: Securable, privileges: Collection[Privilege]) -> Role:
        """Forbidden unless the caller has `grant` there and each privilege, whether there is the role or not."""
        grants = [Grant(on, privilege) for privilege in privileges]
        for grant in (Grant(on, Privilege.GRANT), *grants):
            if not caller.rights.covers(grant):
                raise _may_not_give(grant)
        with self.database.writing() as uow:
            before = uow.roles.get(name)
            for grant in grants:
                _check_own(before)
                uow.roles.grant(name, grant)
            role = uow.roles.get(name)
        self.token_checker.forget()
        return _shown(role, Visibility(caller.rights))

    def revoke(self, caller: Caller, name: RoleName, on: Securable, privileges: Collection[Privilege]) -> Role:
        """Forbidden unless the caller has `grant` there, whether there is the role or not."""
        if not caller.rights.has(Privilege.GRANT, on):
            raise _may_not_give(Grant(on, Privilege.GRANT))
        with self.database.writing() as uow:
            before = uow.roles.get(name)
            _check_own(before)
            for privilege in privileges:
                uow.roles.revoke(name, Grant(on, privilege))
            role = uow.roles.get(name)
        self.token_checker.forget()
        return _shown(role, Visibility(caller.rights))


def find_to_give(uow: UnitOfWork, caller: Caller, name: RoleName) -> Role:
    """The role, which the caller gives to somebody or takes from them.

    Forbidden unless they may pass on everything that it gives. One that gives nothing yet is given by administrators:
    who has it gets whatever is granted to it later. NotFound is said only to who may grant something somewhere.
    """
    if not caller.rights.grants_anything:
        raise _may_not_give(None)
    role = uow.roles.get(name)
    if not role.grants and not caller.rights.administers:
        raise _may_not_give(None)
    for grant in sorted(role.grants):
        if not caller.rights.covers(grant):
            raise _may_not_give(grant) if caller.rights.sees(grant.on) else _may_not_give(None)

    return role


def knows_members(caller: Caller | None, role: Role) -> bool:
    """Whether the caller is told who has a role: whoever may give it, and administrators."""
    if caller is None or caller.rights.administers:
        return True
    return bool(role.grants) and all(caller.rights.covers(grant) for grant in role.grants)


def build_no_such_role(name: RoleName) -> NotFound:
    """What is said of a role that there is not, and of one that is not shown."""
    return NotFound(f"there is no role {name!r}", hint="see the roles with `firn role list`")


def _is_shown_to(caller: Caller | None, name: RoleName) -> bool:
    return caller is None or caller.rights.grants_anything or name in caller.roles


def _may_not_give(grant: Grant | None) -> Forbidden:
    """The same words whether the thing exists or not."""
    what = "everything that this role gives" if grant is None else f"{grant.privilege} on {grant.on}"
    return Forbidden(f"you may not pass on {what}", hint="that takes `grant` there, and the privilege itself")


def _check_own(role: Role) -> None:
    if role.is_builtin:
        raise Conflict(f"the role {role.name} came with the server and stays as it is", hint="make one of your own")


def _shown(role: Role, visible: Visibility) -> Role:
    grants = frozenset(grant for grant in role.grants if visible.sees(grant.on))
    return Role(name=role.name, description=role.description, created_at=role.created_at, grants=grants)
