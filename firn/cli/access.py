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

tokens = typer.Typer(help="Access tokens.", no_args_is_help=True)
roles = typer.Typer(help="Roles: names for privileges, given to users and services.", no_args_is_help=True)

Scope = Annotated[
    str, typer.Option("--on", metavar="SCOPE", help="server, catalog:C, namespace:C.NS or table:C.NS.TABLE")
]
Privileges = Annotated[str, typer.Argument(help="list, read, write, create, drop, maintain, grant; or several: a,b")]
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@command(tokens, "create")
def create_token(
    ctx: CliContext,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    owner: Annotated[str | None, typer.Option(help="Whose it is to be; for administrators.")] = None,
    role: Annotated[list[str] | None, typer.Option(help="Only these of the owner's roles.")] = None,
    in_catalog: Annotated[list[str] | None, typer.Option(help="Only in these catalogs.")] = None,
    expires_in: Annotated[str | None, typer.Option(help="Lifetime: 30m, 12h, 90d.")] = None,
) -> None:
    """Make a token; it is printed this once."""
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
    owner: Annotated[str | None, typer.Option(help="Whose; * is everybody's, for administrators.")] = None,
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
    ctx: CliContext, token_id: Annotated[str, typer.Argument(help="As `firn token list` shows it.")]
) -> None:
    """End a token at once."""
    show = ctx.show
    ctx.client.access.revoke_token(token_id)
    show.emit({"revoked": token_id}, lambda: show.line(f"revoked token {token_id}"))


@tokens.command("reset-admin")
def reset_admin(
    data_dir: Annotated[Path | None, typer.Option(help="The server's data directory.")] = None,
    config: Annotated[Path | None, typer.Option(help="The server's settings.")] = None,
    database_url: Annotated[str | None, typer.Option(help="The server's database.")] = None,
) -> None:
    """On the server's machine: print a new token for the administrator `admin`; all others of theirs end."""
    flags = {"--data-dir": data_dir, "--config": config, "--database-url": database_url}
    become_server(flags, "--reset-admin-token", needed_by="firn token reset-admin")


@command(roles, "create")
def create_role(ctx: CliContext, name: str, description: Annotated[str, typer.Option(help="For people.")] = "") -> None:
    """Create a role that gives nothing yet."""
    show, made = ctx.show, ctx.client.access.create_role(name, description)
    show.emit(made, lambda: show.line(f"created role {name}; grant it something with `firn role grant {name} …`"))


@command(roles, "list")
def list_roles(ctx: CliContext) -> None:
    """List roles: all of them if you may grant something, else your own."""
    show, found = ctx.show, ctx.client.access.roles()
    rows = [(one["name"], one["description"], "; ".join(map(_granted, one["grants"]))) for one in found]
    show.emit(found, lambda: show.table(("role", "description", "grants"), rows, none="no roles"))


@command(roles, "show")
def show_role(ctx: CliContext, name: str) -> None:
    """Show a role, what it is granted, and if you may give it, who has it."""
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
def grant(ctx: CliContext, name: str, privileges: Privileges, on: Scope) -> None:
    """Grant a role privileges on something, and on all that lies in it."""
    show, changed = ctx.show, ctx.client.access.grant(name, privileges.split(","), **scope(on))
    show.emit(changed, lambda: show.line(f"{name} may {privileges} on {on}"))


@command(roles, "revoke")
def revoke(ctx: CliContext, name: str, privileges: Privileges, on: Scope) -> None:
    """Revoke privileges that were granted on exactly this."""
    show, changed = ctx.show, ctx.client.access.revoke(name, privileges.split(","), **scope(on))
    show.emit(changed, lambda: show.line(f"{name} lost {privileges} on {on}"))


@command(roles, "assign")
def assign(ctx: CliContext, name: str, to: Annotated[str, typer.Argument(help="A user or service.")]) -> None:
    """Give a user or service a role."""
    show, changed = ctx.show, ctx.client.access.assign(name, to)
    show.emit(changed, lambda: show.line(f"{to} has the role {name}"))


@command(roles, "unassign")
def unassign(ctx: CliContext, name: str, of: Annotated[str, typer.Argument(help="A user or service.")]) -> None:
    """Take a role from a user or service."""
    show, changed = ctx.show, ctx.client.access.unassign(name, of)
    show.emit(changed, lambda: show.line(f"{of} has the role {name} no more"))


@command(roles, "drop")
def drop_role(ctx: CliContext, name: str) -> None:
    """Drop a role, and take it from all who have it."""
    show = ctx.show
    ctx.client.access.drop_role(name)
    show.emit({"dropped": name}, lambda: show.line(f"dropped role {name}"))


def audit(
    ctx: CliContext,
    by: Annotated[str | None, typer.Option(help="Of this user or service.")] = None,
    target: Annotated[
        str | None, typer.Option(help="CATALOG.NAMESPACE.TABLE or what it lies in; or role NAME.")
    ] = None,
    verdict: Annotated[str | None, typer.Option(help="allowed, forbidden, hidden, unauthenticated")] = None,
    changes: Annotated[bool | None, typer.Option("--changes/--reads", help="Show only these.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 50,
) -> None:
    """List requests and what was decided about them, newest first."""
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
    """Say who the token is of, and what it may do."""
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
