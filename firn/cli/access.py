"""`firn token …`, `firn role …` and `firn audit`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from firn.cli.context import CliContext, command
from firn.cli.processes import become_server
from firn.cli.show import moment
from firn.errors import Invalid
from firn.transport import Json

RoleArg = Annotated[str, typer.Argument(metavar="ROLE", help="Name of the role.")]

tokens = typer.Typer(help="Create, list and revoke access tokens.", no_args_is_help=True)
roles = typer.Typer(help="Manage roles, which give privileges to users and services.", no_args_is_help=True)

Scope = Annotated[
    str,
    typer.Option(
        "--on", metavar="SCOPE", help="Object of the privileges: server, catalog:C, namespace:C.NS or table:C.NS.TABLE."
    ),
]
Privileges = Annotated[
    str, typer.Argument(help="Privileges, separated by commas: list, read, write, create, drop, maintain, grant.")
]
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@command(tokens, "create")
def create_token(
    ctx: CliContext,
    name: Annotated[str, typer.Argument(help="Name of the token: its purpose.")],
    owner: Annotated[str | None, typer.Option(help="Owner of the token; for administrators.")] = None,
    role: Annotated[
        list[str] | None, typer.Option(help="Restrict the token to this role of its owner; may be repeated.")
    ] = None,
    in_catalog: Annotated[
        list[str] | None, typer.Option(help="Restrict the token to this catalog; may be repeated.")
    ] = None,
    expires_in: Annotated[str | None, typer.Option(help="Lifetime: 30m, 12h, 90d.")] = None,
) -> None:
    """Create a token. It is printed only once."""
    created = ctx.client.access.create_token(
        name, owner=owner, roles=role or None, catalogs=in_catalog or None, expires_in=parse_lifetime(expires_in)
    )
    show = ctx.show

    def people() -> None:
        show.line(created["token"])
        until = moment(created["expires_at"])
        show.note(f"token {created['id']} of {created['owner']}, valid until {until}; Firn shows it only this once")

    show.emit(created, people)


@command(tokens, "list")
def list_tokens(
    ctx: CliContext,
    owner: Annotated[
        str | None, typer.Option(help="List only tokens of this owner; * lists all, for administrators.")
    ] = None,
) -> None:
    """List tokens."""
    show, listed = ctx.show, list(ctx.client.access.tokens(owner, kind="bearer"))
    rows = [
        (
            token["id"],
            token["name"],
            token["owner"],
            _describe_limits(token),
            _describe_validity(token),
            moment(token["last_used_at"]),
        )
        for token in listed
    ]
    titles = ("token", "name", "owner", "limited to", "valid until", "last used")
    show.emit(listed, lambda: show.table(titles, rows, none="no tokens"))


@command(tokens, "revoke")
def revoke_token(
    ctx: CliContext, token_id: Annotated[str, typer.Argument(help="Id of the token, as `firn token list` shows it.")]
) -> None:
    """Revoke a token at once."""
    show = ctx.show
    ctx.client.access.revoke_token(token_id)
    show.emit({"revoked": token_id}, lambda: show.line(f"revoked token {token_id}"))


@tokens.command("reset-admin")
def reset_admin(
    data_dir: Annotated[Path | None, typer.Option(help="Data directory of the server.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with the server's settings.")] = None,
    database_url: Annotated[str | None, typer.Option(help="SQLAlchemy URL of the server's database.")] = None,
) -> None:
    """Create a new token for the administrator `admin`, and revoke the old ones. Runs on the server's machine."""
    flags = {"--data-dir": data_dir, "--config": config, "--database-url": database_url}
    become_server(flags, "--reset-admin-token", needed_by="firn token reset-admin")


@command(roles, "create")
def create_role(
    ctx: CliContext, name: RoleArg, description: Annotated[str, typer.Option(help="Description, which users see.")] = ""
) -> None:
    """Create a role without privileges."""
    show, created = ctx.show, ctx.client.access.create_role(name, description)
    show.emit(created, lambda: show.line(f"created role {name}; grant it privileges with `firn role grant {name} …`"))


@command(roles, "list")
def list_roles(ctx: CliContext) -> None:
    """List roles: all roles if you may grant privileges, else your own."""
    show, listed = ctx.show, ctx.client.access.roles()
    rows = [(role["name"], role["description"], "; ".join(map(_describe_grants, role["grants"]))) for role in listed]
    show.emit(listed, lambda: show.table(("role", "description", "grants"), rows, none="no roles"))


@command(roles, "show")
def show_role(ctx: CliContext, name: RoleArg) -> None:
    """Show a role and its privileges; also its members, if you may assign it."""
    show, role = ctx.show, ctx.client.access.role(name)
    facts = {
        "role": role["name"],
        "description": role["description"] or None,
        "members": _describe_members(role["members"]),
    }

    def people() -> None:
        show.facts(facts)
        show.table(
            ("on", "privileges"), [_grant_row(grants) for grants in role["grants"]], none="the role has no privileges"
        )

    show.emit(role, people)


def _describe_members(names: list[str] | None) -> str:
    if names is None:
        return "only users who may assign the role see its members"
    return ", ".join(names) or "nobody"


@command(roles, "grant")
def grant(ctx: CliContext, name: RoleArg, privileges: Privileges, on: Scope) -> None:
    """Grant a role privileges on the server, a catalog, a namespace or a table, and all in it."""
    show, changed = ctx.show, ctx.client.access.grant(name, privileges.split(","), **parse_scope(on))
    show.emit(changed, lambda: show.line(f"{name} may {privileges} on {on}"))


@command(roles, "revoke")
def revoke(ctx: CliContext, name: RoleArg, privileges: Privileges, on: Scope) -> None:
    """Revoke privileges that were granted on this object itself."""
    show, changed = ctx.show, ctx.client.access.revoke(name, privileges.split(","), **parse_scope(on))
    show.emit(changed, lambda: show.line(f"{name} lost {privileges} on {on}"))


@command(roles, "assign")
def assign(
    ctx: CliContext, name: RoleArg, to: Annotated[str, typer.Argument(help="Name of the user or service.")]
) -> None:
    """Assign a role to a user or service."""
    show, changed = ctx.show, ctx.client.access.assign(name, to)
    show.emit(changed, lambda: show.line(f"{to} has the role {name}"))


@command(roles, "unassign")
def unassign(
    ctx: CliContext, name: RoleArg, of: Annotated[str, typer.Argument(help="Name of the user or service.")]
) -> None:
    """Remove a role from a user or service."""
    show, changed = ctx.show, ctx.client.access.unassign(name, of)
    show.emit(changed, lambda: show.line(f"{of} no longer has the role {name}"))


@command(roles, "drop")
def drop_role(ctx: CliContext, name: RoleArg) -> None:
    """Drop a role. Its members lose it."""
    show = ctx.show
    ctx.client.access.drop_role(name)
    show.emit({"dropped": name}, lambda: show.line(f"dropped role {name}"))


def audit(
    ctx: CliContext,
    by: Annotated[str | None, typer.Option(help="Only requests of this user or service.")] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Only requests about this object, such as lake.db.orders, or `role NAME`."),
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(help="Only this verdict: allowed, forbidden, hidden or unauthenticated.")
    ] = None,
    changes: Annotated[
        bool | None, typer.Option("--changes/--reads", help="Only requests that change something, or only others.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of entries to show.")] = 50,
) -> None:
    """List the audit log, newest first: requests, and whether they were allowed."""
    filters = {"principal": by, "target": target, "verdict": verdict, "changes": changes}
    show, entries = ctx.show, ctx.client.access.audit(filters, limit=limit)
    rows = [
        (
            moment(entry["at"]),
            entry["principal"],
            entry["verdict"],
            entry["method"],
            entry["route"],
            _describe_target(entry),
            entry["status"],
        )
        for entry in entries
    ]
    titles = ("at", "who", "verdict", "method", "route", "on", "status")
    show.emit(entries, lambda: show.table(titles, rows, none="no requests"))


def _describe_target(entry: Mapping[str, Any]) -> str:
    return ": ".join(part for part in (entry["target"], entry["detail"]) if part)


def who_am_i(ctx: CliContext) -> None:
    """Show the owner of the token and its privileges."""
    show, me = ctx.show, ctx.client.access.me()

    def people() -> None:
        if not me["access"]:
            show.line("access control is off: every user has all privileges")
            return
        show.facts({"name": me["name"], "kind": me["kind"], "roles": ", ".join(me["roles"]) or "none"})
        show.table(("on", "privileges"), [_grant_row(grants) for grants in me["grants"]], none="you have no privileges")

    show.emit(me, people)


def add_to(app: typer.Typer) -> None:
    """Add `firn audit` and `firn whoami`."""
    command(app, "audit")(audit)
    command(app, "whoami")(who_am_i)


def parse_scope(text: str) -> dict[str, Any]:
    """Parse `table:lake.sales.orders` into the arguments of a grant; raise Invalid for anything else."""
    kind, _, name = text.partition(":")
    parts = name.split(".")
    if text == "server":
        return {}
    if all(parts):
        if kind == "catalog" and len(parts) == 1:
            return {"catalog": parts[0]}
        if kind == "namespace" and len(parts) > 1:
            return {"catalog": parts[0], "namespace": parts[1:]}
        if kind == "table" and len(parts) > 2:
            return {"catalog": parts[0], "namespace": parts[1:-1], "table": parts[-1]}
    hint = "write server, catalog:lake, namespace:lake.sales or table:lake.sales.orders"
    raise Invalid(f"{text!r} is not a scope of privileges", hint=hint)


def parse_lifetime(text: str | None) -> timedelta | None:
    """Parse a duration such as `90d`; raise Invalid for anything else."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if match is None:
        raise Invalid(f"{text!r} is not a duration", hint="write 30m, 12h or 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _grant_row(grants: Json) -> tuple[str, str]:
    on = grants["on"]
    path = ".".join(filter(None, (on["catalog"], *on["namespace"], on["table"])))
    kind = "table" if on["table"] else "namespace" if on["namespace"] else "catalog"
    return (f"{kind}:{path}" if on["catalog"] else "server", ", ".join(grants["privileges"]))


def _describe_grants(grants: Json) -> str:
    on, privileges = _grant_row(grants)
    return f"{privileges} on {on}"


def _describe_limits(token: Json) -> str | None:
    limits = [*(token["roles"] or ()), *(f"catalog {catalog}" for catalog in token["catalogs"] or ())]
    return ", ".join(limits) or None


def _describe_validity(token: Json) -> str:
    if token["revoked_at"] is not None:
        return f"revoked {moment(token['revoked_at'])}"
    return moment(token["expires_at"])
