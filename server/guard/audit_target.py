"""What a request is about, for the audit log, where its demands do not say it: access control, and kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi.exceptions import RequestValidationError

from catalog.access.privileges import Securable
from catalog.names import CatalogName, TableName
from server.api.principals import ServiceIn, UserIn
from server.api.roles import GrantIn, RoleIn, ScopeIn
from server.api.table_jobs import StartJobIn
from server.api.tokens import TokenIn
from server.guard.requirements import AuditTarget, GuardedRequest


def started_job(asked: GuardedRequest) -> AuditTarget:
    """The table, and the kind of the job."""
    dry = "dry run of " if asked.parameter("dry_run") in ("true", "True", "1") else ""
    target = asked.access.table(asked.catalog, TableName.parse(asked.path["table"]))
    return AuditTarget(str(target), f"{dry}{asked.model(StartJobIn).root.kind}")


def new_principal(kind: str, model: type[UserIn | ServiceIn]) -> Callable[[GuardedRequest], AuditTarget]:
    """A user or a service that is created."""
    return lambda asked: AuditTarget(f"{kind} {asked.model(model).name}")


def principal(kind: str) -> Callable[[GuardedRequest], AuditTarget]:
    """One that there is."""
    return lambda asked: AuditTarget(f"{kind} {asked.path['name']}")


def new_role(asked: GuardedRequest) -> AuditTarget:
    """A role that is created."""
    return AuditTarget(f"role {asked.model(RoleIn).name}")


def role(asked: GuardedRequest) -> AuditTarget:
    """A role that is dropped."""
    return AuditTarget(f"role {asked.path['role']}")


def member(asked: GuardedRequest) -> AuditTarget:
    """Who gets or loses a role."""
    return AuditTarget(f"role {asked.path['role']}", f"member {asked.path['name']}")


def grant(asked: GuardedRequest) -> AuditTarget:
    """What a role is given, or is taken from it."""
    role = f"role {asked.path['role']}"
    try:
        change = asked.model(GrantIn)
    except RequestValidationError:  # which role was meant is known all the same
        return AuditTarget(role, "malformed")
    return AuditTarget(role, f"{', '.join(change.privileges)} on {_scope(change.on)}")


def new_token(asked: GuardedRequest) -> AuditTarget:
    """Whose it will be, and to what it is cut down."""
    wanted = asked.model(TokenIn)
    limits = [*_limit("roles", wanted.roles), *_limit("catalogs", wanted.catalogs)]
    return AuditTarget("token", "; ".join([f"{wanted.name} of {wanted.owner or 'themselves'}", *limits]))


def token(asked: GuardedRequest) -> AuditTarget:
    """One that ends."""
    return AuditTarget(f"token {asked.path['token_id']}")


def _limit(name: str, values: Sequence[str] | None) -> list[str]:
    return [] if values is None else [f"{name} {', '.join(values)}"]


def _scope(on: ScopeIn) -> str:
    """As it was asked for; whether there can be such a thing the route will say."""
    return str(Securable(None if on.catalog is None else CatalogName(on.catalog), tuple(on.namespace), on.table))
