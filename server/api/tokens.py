"""Tokens: create, list and revoke them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from catalog.access.privileges import PrincipalId, RoleName
from catalog.access.tokens import Token, TokenKind
from catalog.names import CatalogName
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CallerDep, PageOut, PagingDep, ServicesDep
from server.api.errors import refusals
from server.service.access.tokens import TokenRequest

router = APIRouter(prefix="/tokens", tags=["access"])


class TokenIn(In):
    """A token to be created. It has the privileges of its owner, or fewer."""

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
    """The token that created it or was exchanged for it. It ends with that token."""

    @classmethod
    def of(cls, token: Token, owner: str) -> TokenOut:
        """Build the answer from a token."""
        plain = ("id", "name", "kind", "created_at", "expires_at", "last_used_at", "revoked_at", "origin")
        return cls(
            **{name: getattr(token, name) for name in plain},
            owner=owner,
            roles=None if token.roles is None else list(token.roles),
            catalogs=None if token.catalogs is None else list(token.catalogs),
        )


class NewTokenOut(TokenOut):
    """A new token. `token` is its secret, which the server shows only this once."""

    token: str


@router.get("", summary="List tokens", responses=refusals(403))
def list_tokens(
    services: ServicesDep,
    caller: CallerDep,
    page: PagingDep,
    owner: Annotated[
        str | None, Query(description="a user's or service's name, or * for all; needs an administrator")
    ] = None,
    kind: Annotated[TokenKind | None, Query()] = None,
) -> PageOut[TokenOut]:
    """List the caller's own tokens; an administrator may list those of others."""
    tokens, owners = services.access.tokens.list(caller, owner, kind, limit=page.size, cursor=page.cursor)
    return PageOut(items=[_describe_token(token, owners) for token in tokens.items], next_cursor=tokens.next_cursor)


@router.post("", status_code=201, summary="Create a token", responses=refusals(400, 403, 404))
def create_token(services: ServicesDep, caller: CallerDep, body: TokenIn) -> NewTokenOut:
    """Create a token for the caller; an administrator may create one for others. The secret appears only this once."""
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
    """Revoke a token and every token created with it or exchanged for it.

    This server refuses them at once, other servers within seconds.
    """
    services.access.tokens.revoke(caller, token_id)


def _describe_token(token: Token, owners: Mapping[PrincipalId, str]) -> TokenOut:
    return TokenOut.of(token, owners.get(token.owner, ""))
