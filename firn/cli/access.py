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
    made = ctx.client.access.create_token(
        name, owner=owner, roles=role or None, catalogs=in_catalog or None, expires_in=duration(expires_in)
    )
    show = ctx.show

    def people() -> None:
        show.line(made["token"])
        show.note(f"token {made['id']} of {made['owner']}, good until {moment(made['expires_at'])}; shown this once")

    show.emit(made, people)


@command(tokens, "list")
def list_tokens(
    ctx: CliContext,
    owner: Annotated[
        str | None, typer.Option(help="List only tokens of this owner; * lists all, for administrators.")
    ] = None,
) -> None:
    """List tokens."""
    show, found = ctx.show, list(ctx.client.access.tokens(owner, kind="bearer"))
    rows = [
        (one["id"], one["name"], one["owner"], _limits(one), _state(one), moment(one["last_used_at"])) for one in found
    ]
    titles = ("token", "name", "owner", "limited to", "good until", "last used")
    show.emit(found, lambda: show.table(titles, rows, none="no tokens"))


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
    show, made = ctx.show, ctx.client.access.create_role(name, description)
    show.emit(made, lambda: show.line(f"created role {name}; grant it something with `firn role grant {name} …`"))


@command(roles, "list")
def list_roles(ctx: CliContext) -> None:
    """List roles: all roles if you may grant privileges, else your own."""
    show, found = ctx.show, ctx.client.access.roles()
    rows = [(one["name"], one["description"], "; ".join(map(_granted, one["grants"]))) for one in found]
    show.emit(found, lambda: show.table(("role", "description", "grants"), rows, none="no roles"))


@command(roles, "show")
def show_role(ctx: CliContext, name: RoleArg) -> None:
    """Show a role and its privileges; also its members, if you may assign it."""
    show, found = ctx.show, ctx.client.access.role(name)
    facts = {
        "role": found["name"],
        "description": found["description"] or None,
        "members": _members(found["members"]),
    }

    def people() -> None:
        show.facts(facts)
        show.table(("on", "privileges"), [_row(one) for one in found["grants"]], none="it is granted nothing")

    show.emit(found, people)


def _members(names: list[str] | None) -> str:
    if names is None:
        return "shown to those who may give the role"
    return ", ".join(names) or "nobody"


@command(roles, "grant")
def grant(ctx: CliContext, name: RoleArg, privileges: Privileges, on: Scope) -> None:
    """Grant a role privileges on the server, a catalog, a namespace or a table, and all in it."""
    show, changed = ctx.show, ctx.client.access.grant(name, privileges.split(","), **scope(on))
    show.emit(changed, lambda: show.line(f"{name} may {privileges} on {on}"))


@command(roles, "revoke")
def revoke(ctx: CliContext, name: RoleArg, privileges: Privileges, on: Scope) -> None:
    """Revoke privileges that were granted on this object itself."""
    show, changed = ctx.show, ctx.client.access.revoke(name, privileges.split(","), **scope(on))
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
    show.emit(changed, lambda: show.line(f"{of} has the role {name} no more"))


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
    show, found = ctx.show, ctx.client.access.audit(filters, limit=limit)
    rows = [
        (moment(one["at"]), one["principal"], one["verdict"], one["method"], one["route"], _on(one), one["status"])
        for one in found
    ]
    titles = ("at", "who", "verdict", "method", "route", "on", "status")
    show.emit(found, lambda: show.table(titles, rows, none="no requests"))


def _on(entry: Mapping[str, Any]) -> str:
    return ": ".join(part for part in (entry["target"], entry["detail"]) if part)


def who_am_i(ctx: CliContext) -> None:
    """Show the owner of the token and its privileges."""
    show, me = ctx.show, ctx.client.access.me()

    def people() -> None:
        if not me["access"]:
            show.line("access control is off: everybody may do everything")
            return
        show.facts({"name": me["name"], "kind": me["kind"], "roles": ", ".join(me["roles"]) or "none"})
        show.table(("on", "privileges"), [_row(one) for one in me["grants"]], none="nothing is granted")

    show.emit(me, people)


def add_to(app: typer.Typer) -> None:
    """Add the commands that stand alone."""
    command(app, "audit")(audit)
    command(app, "whoami")(who_am_i)


def scope(text: str) -> dict[str, Any]:
    """`table:lake.sales.orders` as what to grant on; Invalid for anything else."""
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
    raise Invalid(f"{text!r} names nothing that privileges are granted on", hint=hint)


def duration(text: str | None) -> timedelta | None:
    """`90d` as a time; Invalid for anything else."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if match is None:
        raise Invalid(f"{text!r} is no duration", hint="write 30m, 12h or 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _row(grants: Json) -> tuple[str, str]:
    on = grants["on"]
    path = ".".join(filter(None, (on["catalog"], *on["namespace"], on["table"])))
    kind = "table" if on["table"] else "namespace" if on["namespace"] else "catalog"
    return (f"{kind}:{path}" if on["catalog"] else "server", ", ".join(grants["privileges"]))


def _granted(grants: Json) -> str:
    on, privileges = _row(grants)
    return f"{privileges} on {on}"


def _limits(token: Json) -> str | None:
    limits = [*(token["roles"] or ()), *(f"catalog {one}" for one in token["catalogs"] or ())]
    return ", ".join(limits) or None


def _state(token: Json) -> str:
    if token["revoked_at"] is not None:
        return f"revoked {moment(token['revoked_at'])}"
    return moment(token["expires_at"])
