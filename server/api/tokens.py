"""Tokens: made, listed, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from catalog.access.privileges import PrincipalId, RoleName
from catalog.access.tokens import Token, TokenKind
from catalog.names import CatalogName
from firn.protocol.base import Request as In
from server.api.deps import CallerDep, Out, PageOut, PagingDep, ServicesDep
from server.api.errors import refusals
from server.service.access.tokens import TokenRequest

router = APIRouter(prefix="/tokens", tags=["access"])


class TokenIn(In):
    """A token to be made; it can do what its owner can, or less."""

    name: Annotated[str, Field(max_length=255)]
    owner: str | None = None
    roles: list[str] | None = None
    catalogs: list[str] | None = None
    expires_in_seconds: Annotated[int, Field(gt=0, le=10**9)] | None = None


class TokenOut(Out):
    """A token without its secret."""

    id: str
    name: str
    kind: TokenKind
    owner: str
    roles: list[str] | None
    catalogs: list[str] | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    origin: str | None
    """The token that it was made with or exchanged for; it ends with that one."""

    @classmethod
    def of(cls, token: Token, owner: str) -> TokenOut:
        """As it is shown."""
        plain = ("id", "name", "kind", "created_at", "expires_at", "last_used_at", "revoked_at", "origin")
        return cls(
            **{name: getattr(token, name) for name in plain},
            owner=owner,
            roles=None if token.roles is None else list(token.roles),
            catalogs=None if token.catalogs is None else list(token.catalogs),
        )


class NewTokenOut(TokenOut):
    """A new token; `token` is what is sent, and is shown this once."""

    token: str


@router.get("", summary="List tokens", responses=refusals(403))
def list_tokens(
    services: ServicesDep,
    caller: CallerDep,
    page: PagingDep,
    owner: Annotated[str | None, Query(description="whose; * is everybody's, for administrators")] = None,
    kind: Annotated[TokenKind | None, Query()] = None,
) -> PageOut[TokenOut]:
    """The caller's own; an administrator may ask for others'."""
    found, owners = services.access.tokens.list(caller, owner, kind, limit=page.size, cursor=page.cursor)
    return PageOut(items=[_shown(one, owners) for one in found.items], next_cursor=found.next_cursor)


@router.post("", status_code=201, summary="Make a token", responses=refusals(400, 403, 404))
def create_token(services: ServicesDep, caller: CallerDep, body: TokenIn) -> NewTokenOut:
    """For the caller, or by an administrator for somebody else. The secret is shown this once."""
    issued = services.access.tokens.create(
        caller,
        TokenRequest(
            name=body.name,
            owner=body.owner,
            roles=None if body.roles is None else [RoleName(role) for role in body.roles],
            catalogs=None if body.catalogs is None else [CatalogName(name) for name in body.catalogs],
            expires_in=None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds),
        ),
    )
    return NewTokenOut(**TokenOut.of(issued.token, issued.owner).model_dump(), token=issued.secret.text)


@router.delete("/{token_id}", status_code=204, summary="Revoke a token", responses=refusals(404))
def revoke_token(services: ServicesDep, caller: CallerDep, token_id: str) -> None:
    """At once on this server, within seconds on others, with every token that was made with it or exchanged for it."""
    services.access.tokens.revoke(caller, token_id)


def _shown(token: Token, owners: Mapping[PrincipalId, str]) -> TokenOut:
    return TokenOut.of(token, owners.get(token.owner, ""))
