"""`firn role …`, and `firn whoami`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from firn.cli.context import CliContext, command
from firn.errors import Invalid
from firn.transport import Json

app = typer.Typer(help="Manage roles, which give privileges to users and services.", no_args_is_help=True)
RoleArg = Annotated[str, typer.Argument(metavar="ROLE", help="Name of the role.")]
Scope = Annotated[
    str,
    typer.Option(
        "--on", metavar="SCOPE", help="Object of the privileges: server, catalog:C, namespace:C.NS or table:C.NS.TABLE."
    ),
]
Privileges = Annotated[
    str, typer.Argument(help="Privileges, separated by commas: list, read, write, create, drop, maintain, grant.")
]


@command(app, "create")
def create_role(
    ctx: CliContext, name: RoleArg, description: Annotated[str, typer.Option(help="Description, which users see.")] = ""
) -> None:
    """Create a role without privileges."""
    show, created = ctx.show, ctx.client.access.create_role(name, description)
    show.emit(created, lambda: show.line(f"created role {name}; grant it privileges with `firn role grant {name} …`"))
    note_access_is_off(ctx, "roles have no effect yet")


@command(app, "list")
def list_roles(ctx: CliContext) -> None:
    """List roles: all roles if you may grant privileges, else your own."""
    show, roles = ctx.show, ctx.client.access.roles()
    rows = [(role["name"], role["description"], "; ".join(map(_describe_grants, role["grants"]))) for role in roles]
    show.emit(roles, lambda: show.table(("role", "description", "grants"), rows, none="no roles"))


@command(app, "show")
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


@command(app, "grant")
def grant(ctx: CliContext, name: RoleArg, privileges: Privileges, on: Scope) -> None:
    """Grant a role privileges on the server, a catalog, a namespace or a table, and all in it."""
    show, changed = ctx.show, ctx.client.access.grant(name, privileges.split(","), **parse_scope(on))
    show.emit(changed, lambda: show.line(f"{name} may {privileges} on {on}"))


@command(app, "revoke")
def revoke(ctx: CliContext, name: RoleArg, privileges: Privileges, on: Scope) -> None:
    """Revoke privileges that were granted on this object itself."""
    show, changed = ctx.show, ctx.client.access.revoke(name, privileges.split(","), **parse_scope(on))
    show.emit(changed, lambda: show.line(f"{name} lost {privileges} on {on}"))


@command(app, "assign")
def assign(
    ctx: CliContext, name: RoleArg, to: Annotated[str, typer.Argument(help="Name of the user or service.")]
) -> None:
    """Assign a role to a user or service."""
    show, changed = ctx.show, ctx.client.access.assign(name, to)
    show.emit(changed, lambda: show.line(f"{to} has the role {name}"))


@command(app, "unassign")
def unassign(
    ctx: CliContext, name: RoleArg, of: Annotated[str, typer.Argument(help="Name of the user or service.")]
) -> None:
    """Remove a role from a user or service."""
    show, changed = ctx.show, ctx.client.access.unassign(name, of)
    show.emit(changed, lambda: show.line(f"{of} no longer has the role {name}"))


@command(app, "drop")
def drop_role(ctx: CliContext, name: RoleArg) -> None:
    """Drop a role. Its members lose it."""
    show = ctx.show
    ctx.client.access.drop_role(name)
    show.emit({"dropped": name}, lambda: show.line(f"dropped role {name}"))


def note_access_is_off(ctx: CliContext, effect: str) -> None:
    """Say so on standard error if the server has no access control."""
    if not ctx.client.access.me()["access"]:
        ctx.show.note(f"access control is off: {effect}; FIRN_ACCESS__ENABLED=true switches it on")


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


def add_to(main: typer.Typer) -> None:
    """Add `firn whoami`."""
    command(main, "whoami")(who_am_i)


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


def _grant_row(grants: Json) -> tuple[str, str]:
    on = grants["on"]
    path = ".".join(filter(None, (on["catalog"], *on["namespace"], on["table"])))
    kind = "table" if on["table"] else "namespace" if on["namespace"] else "catalog"
    return (f"{kind}:{path}" if on["catalog"] else "server", ", ".join(grants["privileges"]))


def _describe_grants(grants: Json) -> str:
    on, privileges = _grant_row(grants)
    return f"{privileges} on {on}"
