"""The targets of requests for the audit log, where the requirements do not show them: access control and jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import shorten

from fastapi.exceptions import RequestValidationError

from catalog.access.privileges import Securable
from catalog.names import CatalogName, TableName
from firn.protocol.connections import ConnectionRequest
from firn.protocol.notifications import RuleRequest
from firn.protocol.pipelines import RunRequest
from firn.protocol.queries import SavedQueryIn
from server.api.logs import LogResetIn
from server.api.principals import ServiceIn, UserIn
from server.api.roles import GrantIn, RoleIn, ScopeIn
from server.api.table_jobs import StartJobIn
from server.api.tokens import TokenIn
from server.guard.requirements import AuditTarget, GuardedRequest

_LONGEST_TARGET = 200
"""In characters, of a position: an audit log is read line by line."""


def started_job(request: GuardedRequest) -> AuditTarget:
    """Name the table and the kind of the job."""
    dry = "dry run of " if request.parameter("dry_run") in ("true", "True", "1") else ""
    target = request.access.table(request.catalog, TableName.parse(request.path["table"]))
    return AuditTarget(str(target), f"{dry}{request.model(StartJobIn).root.kind}")


def writer(request: GuardedRequest) -> AuditTarget:
    """Name the table and the writer."""
    target = request.access.table(request.catalog, TableName.parse(request.path["table"]))
    return AuditTarget(str(target), f"writer {request.path['writer']}")


def pipeline(request: GuardedRequest) -> AuditTarget:
    """Name the pipeline."""
    return AuditTarget(f"pipeline {request.path['pipeline']}")


def pipeline_table(verb: str) -> Callable[[GuardedRequest], AuditTarget]:
    """Name the pipeline, the table, and what is done with the table."""
    return lambda request: AuditTarget(f"pipeline {request.path['pipeline']}", f"{verb} of {request.path['table']}")


def new_saved_query(request: GuardedRequest) -> AuditTarget:
    """Name the saved query."""
    wanted = request.model(SavedQueryIn)
    return AuditTarget(f"saved query {wanted.name}", "shared" if wanted.shared else "")


def saved_query(request: GuardedRequest) -> AuditTarget:
    """Name the saved query by its id."""
    return AuditTarget(f"saved query {request.path['saved_id']}")


def backfill(request: GuardedRequest) -> AuditTarget:
    """Name the pipeline and the table of a backfill, and its id, if it has one."""
    names = (request.path["table"], request.path.get("backfill_id", ""))
    return AuditTarget(f"pipeline {request.path['pipeline']}", f"backfill of {' '.join(filter(None, names))}")


def pipeline_run(request: GuardedRequest) -> AuditTarget:
    """Name the pipeline and the table of a requested run."""
    return AuditTarget(f"pipeline {request.path['pipeline']}", f"run of {request.model(RunRequest).table}")


def log_skip(request: GuardedRequest) -> AuditTarget:
    """Name the table, and whether this only shows what a skip would lose."""
    dry = "dry run of " if request.parameter("dry_run") in ("true", "True", "1") else ""
    target = request.access.table(request.catalog, TableName.parse(request.path["table"]))
    return AuditTarget(str(target), f"{dry}skip")


def log_reset(request: GuardedRequest) -> AuditTarget:
    """Name the table and the target, and whether this only shows what a reset would do."""
    dry = "dry run of " if request.parameter("dry_run") in ("true", "True", "1") else ""
    target = request.access.table(request.catalog, TableName.parse(request.path["table"]))
    to = shorten(request.model(LogResetIn).to, _LONGEST_TARGET, placeholder="…")
    return AuditTarget(str(target), f"{dry}reset to {to}")


def new_connection(request: GuardedRequest) -> AuditTarget:
    """Name the created connection."""
    return AuditTarget(f"connection {request.model(ConnectionRequest).name}")


def connection(request: GuardedRequest) -> AuditTarget:
    """Name an existing connection."""
    return AuditTarget(f"connection {request.path['connection']}")


def new_rule(request: GuardedRequest) -> AuditTarget:
    """Name the created rule of notifications."""
    return AuditTarget(f"notification rule {request.model(RuleRequest).name}")


def rule(request: GuardedRequest) -> AuditTarget:
    """Name an existing rule of notifications."""
    return AuditTarget(f"notification rule {request.path['rule']}")


def notification(request: GuardedRequest) -> AuditTarget:
    """Name a message of a rule."""
    return AuditTarget(f"notification {request.path['notification_id']}")


def consumer(request: GuardedRequest) -> AuditTarget:
    """Name the table and the consumer."""
    target = request.access.table(request.catalog, TableName.parse(request.path["table"]))
    return AuditTarget(str(target), f"consumer {request.path['consumer']}")


def new_principal(kind: str, model: type[UserIn | ServiceIn]) -> Callable[[GuardedRequest], AuditTarget]:
    """Name the created user or service."""
    return lambda request: AuditTarget(f"{kind} {request.model(model).name}")


def principal(kind: str) -> Callable[[GuardedRequest], AuditTarget]:
    """Name an existing user or service."""
    return lambda request: AuditTarget(f"{kind} {request.path['name']}")


def new_role(request: GuardedRequest) -> AuditTarget:
    """Name the created role."""
    return AuditTarget(f"role {request.model(RoleIn).name}")


def role(request: GuardedRequest) -> AuditTarget:
    """Name the role in the path."""
    return AuditTarget(f"role {request.path['role']}")


def member(request: GuardedRequest) -> AuditTarget:
    """Name the role and the member who gets or loses it."""
    return AuditTarget(f"role {request.path['role']}", f"member {request.path['name']}")


def grant(request: GuardedRequest) -> AuditTarget:
    """Name the role and the privileges that it gets or loses."""
    role = f"role {request.path['role']}"
    try:
        change = request.model(GrantIn)
    except RequestValidationError:  # the path still names the role
        return AuditTarget(role, "malformed")
    return AuditTarget(role, f"{', '.join(change.privileges)} on {_scope(change.on)}")


def new_token(request: GuardedRequest) -> AuditTarget:
    """Name the new token, its owner and its limits."""
    body = request.model(TokenIn)
    limits = [*_limit("roles", body.roles), *_limit("catalogs", body.catalogs)]
    return AuditTarget("token", "; ".join([f"{body.name} of {body.owner or 'themselves'}", *limits]))


def token(request: GuardedRequest) -> AuditTarget:
    """Name the token in the path."""
    return AuditTarget(f"token {request.path['token_id']}")


def _limit(name: str, values: Sequence[str] | None) -> list[str]:
    return [] if values is None else [f"{name} {', '.join(values)}"]


def _scope(on: ScopeIn) -> str:
    """Describe the scope as requested, without the checks of the route."""
    return str(Securable(None if on.catalog is None else CatalogName(on.catalog), tuple(on.namespace), on.table))
