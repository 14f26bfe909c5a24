"""`firn user …` and `firn service …`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from firn.access import Kind
from firn.cli.context import CliContext, command
from firn.cli.roles import note_access_is_off
from firn.transport import Json

users = typer.Typer(help="Manage users: people with roles.", no_args_is_help=True)
services = typer.Typer(help="Manage services: engines and programs with roles.", no_args_is_help=True)

UserArg = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
PrincipalArg = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user or service.")]
ServiceArg = Annotated[str, typer.Argument(metavar="SERVICE", help="Name of the service.")]


@command(users, "create")
def create_user(
    ctx: CliContext,
    name: UserArg,
    subject: Annotated[str | None, typer.Option(help="Subject of the user at the OIDC issuer (claim `sub`).")] = None,
) -> None:
    """Create a user. Users who sign in by OIDC need not be created."""
    show, created = ctx.show, ctx.client.access.create_user(name, subject=subject)
    hint = f"`firn token create … --owner {name}` creates a token for the user"
    show.emit(created, lambda: show.line(f"created user {name}; {hint}"))
    note_access_is_off(ctx, "users have all privileges")


@command(services, "create")
def create_service(ctx: CliContext, name: ServiceArg) -> None:
    """Create a service. Its secret is printed only once."""
    _show_secret(ctx, ctx.client.access.create_service(name))


@command(services, "new-secret")
def new_secret(ctx: CliContext, name: ServiceArg) -> None:
    """Create a new secret for a service. The old secret and all tokens of the service stop working."""
    _show_secret(ctx, ctx.client.access.new_secret(name))


def _show_secret(ctx: CliContext, service: Json) -> None:
    show = ctx.show

    def people() -> None:
        show.line(f"{service['client_id']}:{service['client_secret']}")
        show.note("engines take this as `credential`; Firn shows the secret only this once")

    show.emit(service, people)


def _add(app: typer.Typer, kind: Kind) -> None:
    """Add the commands that users and services share."""
    noun = kind.removesuffix("s")
    commands = {
        "list": (_list, f"List {kind}."),
        "show": (_show, f"Show a {noun} and its roles."),
        "disable": (_disable, f"Refuse a {noun} access, with all its tokens."),
        "enable": (_enable, f"Give a disabled {noun} access again."),
        "drop": (_drop, f"Drop a {noun} and its tokens."),
    }
    for name, (build, words) in commands.items():
        function = build(kind, noun)
        function.__doc__ = words
        command(app, name)(function)


def _list(kind: Kind, noun: str) -> Callable[..., None]:
    def list_principals(ctx: CliContext) -> None:
        show, principals = ctx.show, list(ctx.client.access.principals(kind))
        rows = [
            (principal["name"], _roles(principal), principal["disabled"], principal["created_at"])
            for principal in principals
        ]
        show.emit(principals, lambda: show.table((noun, "roles", "disabled", "created"), rows, none=f"no {kind}"))

    return list_principals


def _show(kind: Kind, noun: str) -> Callable[..., None]:
    def show_principal(ctx: CliContext, name: PrincipalArg) -> None:
        show, principal = ctx.show, ctx.client.access.principal(kind, name)
        facts = {
            noun: principal["name"],
            "roles": _roles(principal),
            "disabled": principal["disabled"],
            "subject": principal["subject"],
        }
        show.emit(principal, lambda: show.facts(facts))

    return show_principal


def _disable(kind: Kind, _noun: str) -> Callable[..., None]:
    def disable(ctx: CliContext, name: PrincipalArg) -> None:
        show, principal = ctx.show, ctx.client.access.set_disabled(kind, name, disabled=True)
        show.emit(principal, lambda: show.line(f"{name} has no access until it is enabled again"))

    return disable


def _enable(kind: Kind, _noun: str) -> Callable[..., None]:
    def enable(ctx: CliContext, name: PrincipalArg) -> None:
        show, principal = ctx.show, ctx.client.access.set_disabled(kind, name, disabled=False)
        show.emit(principal, lambda: show.line(f"{name} has access again"))

    return enable


def _drop(kind: Kind, noun: str) -> Callable[..., None]:
    def drop(ctx: CliContext, name: PrincipalArg) -> None:
        show = ctx.show
        ctx.client.access.drop(kind, name)
        show.emit({"dropped": name}, lambda: show.line(f"dropped {noun} {name}, with all tokens"))

    return drop


_add(users, "users")
_add(services, "services")


def _roles(principal: Json) -> str:
    return ", ".join(role["role"] for role in principal["roles"]) or "none"
