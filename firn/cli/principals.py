"""`firn user …` and `firn service …`."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.access import Kind
from firn.cli.context import CliContext, command
from firn.transport import Json

users = typer.Typer(help="People who may be given roles.", no_args_is_help=True)
services = typer.Typer(help="Engines and programs that may be given roles.", no_args_is_help=True)


@command(users, "create")
def create_user(
    ctx: CliContext,
    name: str,
    subject: Annotated[str | None, typer.Option(help="Who they are to the OIDC issuer (claim `sub`).")] = None,
) -> None:
    """Create a user. Who signs in by OIDC needs no creating."""
    show, made = ctx.show, ctx.client.access.create_user(name, subject=subject)
    show.emit(made, lambda: show.line(f"created user {name}; `firn token create … --owner {name}` makes them a token"))


@command(services, "create")
def create_service(ctx: CliContext, name: str) -> None:
    """Create a service; its secret is printed this once."""
    _tell_secret(ctx, ctx.client.access.create_service(name))


@command(services, "new-secret")
def new_secret(ctx: CliContext, name: str) -> None:
    """Give a service another secret; the old one and all its tokens end at once."""
    _tell_secret(ctx, ctx.client.access.new_secret(name))


def _tell_secret(ctx: CliContext, made: Json) -> None:
    show = ctx.show

    def people() -> None:
        show.line(f"{made['client_id']}:{made['client_secret']}")
        show.note("engines take this as `credential`; the secret is shown this once")

    show.emit(made, people)


def _add(app: typer.Typer, kind: Kind) -> None:
    """The commands that users and services share."""
    what = kind.removesuffix("s")

    @command(app, "list")
    def list_all(ctx: CliContext) -> None:
        show, found = ctx.show, list(ctx.client.access.principals(kind))
        rows = [(one["name"], _roles(one), one["disabled"], one["created_at"]) for one in found]
        show.emit(found, lambda: show.table((what, "roles", "disabled", "created"), rows, none=f"no {kind}"))

    @command(app, "show")
    def show_one(ctx: CliContext, name: str) -> None:
        show, found = ctx.show, ctx.client.access.principal(kind, name)
        facts = {
            what: found["name"],
            "roles": _roles(found),
            "disabled": found["disabled"],
            "subject": found["subject"],
        }
        show.emit(found, lambda: show.facts(facts))

    @command(app, "disable")
    def disable(ctx: CliContext, name: str) -> None:
        show, found = ctx.show, ctx.client.access.set_disabled(kind, name, disabled=True)
        show.emit(found, lambda: show.line(f"{name} has no access until it is enabled again"))

    @command(app, "enable")
    def enable(ctx: CliContext, name: str) -> None:
        show, found = ctx.show, ctx.client.access.set_disabled(kind, name, disabled=False)
        show.emit(found, lambda: show.line(f"{name} has access again"))

    @command(app, "drop")
    def drop(ctx: CliContext, name: str) -> None:
        show = ctx.show
        ctx.client.access.drop(kind, name)
        show.emit({"dropped": name}, lambda: show.line(f"dropped {what} {name}, with all tokens"))

    helps = {"list": f"List {kind}.", "show": f"Show a {what} and its roles.", "drop": f"Drop a {what}."}
    helps |= {"disable": f"Keep a {what} out, its tokens included.", "enable": f"Let a {what} in again."}
    for one in app.registered_commands:
        one.help = helps.get(one.name or "", one.help)


_add(users, "users")
_add(services, "services")


def _roles(found: Json) -> str:
    return ", ".join(one["role"] for one in found["roles"]) or "none"
