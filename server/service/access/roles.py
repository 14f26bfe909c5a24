"""Roles and their grants."""

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
    """Manages roles and grants."""

    database: Database
    token_checker: TokenChecker

    def create(self, name: str, description: str) -> Role:
        """Create a role without grants; raises AlreadyExists when another role has the name."""
        with self.database.writing() as uow:
            role = Role(name=RoleName(parse_identifier(name, "role")), description=description, created_at=uow.now())
            uow.roles.add(role)
        return role

    def list(self, caller: Caller | None) -> Sequence[Role]:
        """The roles that the caller may see, each with the grants on objects that the caller may see.

        A caller who may grant anything sees all roles; other callers see their own roles.
        """
        with self.database.reading() as uow:
            return [_shown(role, Visibility.to(caller)) for role in uow.roles.list() if _is_shown_to(caller, role.name)]

    def show(self, name: RoleName, caller: Caller | None) -> tuple[Role, Sequence[str] | None]:
        """A role and the names of its members; the names are None if the caller may not give the role.

        Raises NotFound for a role that the caller may not see.
        """
        with self.database.reading() as uow:
            if not _is_shown_to(caller, name):
                raise build_no_such_role(name)
            role = uow.roles.get(name)
            members = uow.principals.names(uow.roles.members(name)) if knows_members(caller, role) else None
        return _shown(role, Visibility.to(caller)), None if members is None else sorted(members.values())

    def remove(self, name: RoleName) -> None:
        """Remove a role and take it from its members; raises Conflict for a built-in role."""
        with self.database.writing() as uow:
            _check_own(uow.roles.get(name))
            uow.roles.remove(name)
        self.token_checker.clear_cache()

    def grant(self, caller: Caller, name: RoleName, on: Securable, privileges: Collection[Privilege]) -> Role:
        """Grant privileges to a role.

        Raises Forbidden, also for a missing role, unless the caller has `grant` on the object and each privilege.
        """
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
        self.token_checker.clear_cache()
        return _shown(role, Visibility(caller.rights))

    def revoke(self, caller: Caller, name: RoleName, on: Securable, privileges: Collection[Privilege]) -> Role:
        """Revoke privileges of a role; raises Forbidden, also for a missing role, without `grant` on the object."""
        if not caller.rights.has(Privilege.GRANT, on):
            raise _may_not_give(Grant(on, Privilege.GRANT))
        with self.database.writing() as uow:
            before = uow.roles.get(name)
            _check_own(before)
            for privilege in privileges:
                uow.roles.revoke(name, Grant(on, privilege))
            role = uow.roles.get(name)
        self.token_checker.clear_cache()
        return _shown(role, Visibility(caller.rights))


def find_to_give(uow: UnitOfWork, caller: Caller, name: RoleName) -> Role:
    """The role that the caller wants to give to a principal, or take from it.

    Raises Forbidden unless the caller may pass on all its privileges. Only administrators may give a role without
    grants, because its members get every later grant. Only callers who may grant anything get NotFound.
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
    """Whether the caller may know the members of a role: administrators, and callers who may give it."""
    if caller is None or caller.rights.administers:
        return True
    return bool(role.grants) and all(caller.rights.covers(grant) for grant in role.grants)


def build_no_such_role(name: RoleName) -> NotFound:
    """The same error for a missing role and for a role that the caller may not see."""
    return NotFound(f"there is no role {name!r}", hint="see the roles with `firn role list`")


def _is_shown_to(caller: Caller | None, name: RoleName) -> bool:
    return caller is None or caller.rights.grants_anything or name in caller.roles


def _may_not_give(grant: Grant | None) -> Forbidden:
    """The same error, whether or not the object exists."""
    privileges = "all privileges of this role" if grant is None else f"{grant.privilege} on {grant.on}"
    return Forbidden(f"you may not pass on {privileges}", hint="that needs `grant` there, and the privilege itself")


def _check_own(role: Role) -> None:
    if role.is_builtin:
        raise Conflict(f"the role {role.name} is built in and cannot be changed", hint="create a role of your own")


def _shown(role: Role, visible: Visibility) -> Role:
    grants = frozenset(grant for grant in role.grants if visible.sees(grant.on))
    return Role(name=role.name, description=role.description, created_at=role.created_at, grants=grants)
