"""`firn token …`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.processes import become_server
from firn.cli.show import moment
from firn.errors import Invalid
from firn.transport import Json

app = typer.Typer(help="Create, list and revoke access tokens.", no_args_is_help=True)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@command(app, "create")
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


@command(app, "list")
def list_tokens(
    ctx: CliContext,
    owner: Annotated[
        str | None, typer.Option(help="List only tokens of this owner; * lists all, for administrators.")
    ] = None,
) -> None:
    """List tokens."""
    show, tokens = ctx.show, list(ctx.client.access.tokens(owner, kind="bearer"))
    rows = [
        (
            token["id"],
            token["name"],
            token["owner"],
            _describe_limits(token),
            _describe_validity(token),
            moment(token["last_used_at"]),
        )
        for token in tokens
    ]
    titles = ("token", "name", "owner", "limited to", "valid until", "last used")
    show.emit(tokens, lambda: show.table(titles, rows, none="no tokens"))


@command(app, "revoke")
def revoke_token(
    ctx: CliContext, token_id: Annotated[str, typer.Argument(help="Id of the token, as `firn token list` shows it.")]
) -> None:
    """Revoke a token at once."""
    show = ctx.show
    ctx.client.access.revoke_token(token_id)
    show.emit({"revoked": token_id}, lambda: show.line(f"revoked token {token_id}"))


@app.command("reset-admin")
def reset_admin(
    data_dir: Annotated[Path | None, typer.Option(help="Data directory of the server.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with the server's settings.")] = None,
    database_url: Annotated[str | None, typer.Option(help="SQLAlchemy URL of the server's database.")] = None,
) -> None:
    """Create a new token for the administrator `admin`, and revoke the old ones. Runs on the server's machine."""
    flags = {"--data-dir": data_dir, "--config": config, "--database-url": database_url}
    become_server(flags, "--reset-admin-token", needed_by="firn token reset-admin")


def parse_lifetime(text: str | None) -> timedelta | None:
    """Parse a duration such as `90d`; raise Invalid for anything else."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if match is None:
        raise Invalid(f"{text!r} is not a duration", hint="write 30m, 12h or 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _describe_limits(token: Json) -> str | None:
    limits = [*(token["roles"] or ()), *(f"catalog {catalog}" for catalog in token["catalogs"] or ())]
    return ", ".join(limits) or None


def _describe_validity(token: Json) -> str:
    if token["revoked_at"] is not None:
        return f"revoked {moment(token['revoked_at'])}"
    return moment(token["expires_at"])
