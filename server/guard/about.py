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
from server.guard.demands import About, Asked


def started_job(asked: Asked) -> About:
    """The table, and the kind of the job."""
    dry = "dry run of " if asked.parameter("dry_run") in ("true", "True", "1") else ""
    target = asked.access.table(asked.catalog, TableName.parse(asked.path["table"]))
    return About(str(target), f"{dry}{asked.model(StartJobIn).root.kind}")


def new_principal(kind: str, model: type[UserIn | ServiceIn]) -> Callable[[Asked], About]:
    """A user or a service that is created."""
    return lambda asked: About(f"{kind} {asked.model(model).name}")


def principal(kind: str) -> Callable[[Asked], About]:
    """One that there is."""
    return lambda asked: About(f"{kind} {asked.path['name']}")


def new_role(asked: Asked) -> About:
    """A role that is created."""
    return About(f"role {asked.model(RoleIn).name}")


def role(asked: Asked) -> About:
    """A role that is dropped."""
    return About(f"role {asked.path['role']}")


def member(asked: Asked) -> About:
    """Who gets or loses a role."""
    return About(f"role {asked.path['role']}", f"member {asked.path['name']}")


def grant(asked: Asked) -> About:
    """What a role is given, or is taken from it."""
    role = f"role {asked.path['role']}"
    try:
        change = asked.model(GrantIn)
    except RequestValidationError:  # which role was meant is known all the same
        return About(role, "malformed")
    return About(role, f"{', '.join(change.privileges)} on {_scope(change.on)}")


def new_token(asked: Asked) -> About:
    """Whose it will be, and to what it is cut down."""
    wanted = asked.model(TokenIn)
    limits = [*_limit("roles", wanted.roles), *_limit("catalogs", wanted.catalogs)]
    return About("token", "; ".join([f"{wanted.name} of {wanted.owner or 'themselves'}", *limits]))


def token(asked: Asked) -> About:
    """One that ends."""
    return About(f"token {asked.path['token_id']}")


def _limit(name: str, values: Sequence[str] | None) -> list[str]:
    return [] if values is None else [f"{name} {', '.join(values)}"]


def _scope(on: ScopeIn) -> str:
    """As it was asked for; whether there can be such a thing the route will say."""
    return str(Securable(None if on.catalog is None else CatalogName(on.catalog), tuple(on.namespace), on.table))
