"""Tokens, roles, users, services and the audit log of a server.

client.access.create_token("nightly load", catalogs=["lake"])["token"]
client.access.grant("analysts", ["read"], catalog="lake", namespace=["sales"])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from urllib.parse import quote

from firn.names import split_name
from firn.transport import Json, Transport

Kind = Literal["users", "services"]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what. Each answer is as the server gives it; every method may raise a firn.errors.FirnError."""

    transport: Transport

    def me(self) -> Json:
        """Who is asking, and what they may do."""
        return self.transport.get("/me")

    def create_token(
        self,
        name: str,
        *,
        owner: str | None = None,
        roles: Sequence[str] | None = None,
        catalogs: Sequence[str] | None = None,
        expires_in: timedelta | None = None,
    ) -> Json:
        """A token; its secret, `token`, is told this once."""
        body = {
            "name": name,
            "owner": owner,
            "roles": None if roles is None else list(roles),
            "catalogs": None if catalogs is None else list(catalogs),
            "expires_in_seconds": None if expires_in is None else int(expires_in.total_seconds()),
        }
        return self.transport.change("POST", "/tokens", body)

    def tokens(self, owner: str | None = None, *, kind: str | None = None) -> Iterator[Json]:
        """One's own; an administrator may name another's owner, or `*` for everybody's."""
        return self.transport.items("/tokens", {"owner": owner, "kind": kind})

    def revoke_token(self, token_id: str) -> None:
        """By its id, at once."""
        self.transport.change("DELETE", f"/tokens/{_quoted(token_id)}")

    def roles(self) -> list[Json]:
        """With what they are granted: all of them for who may grant something, the caller's own for others."""
        return list(self.transport.items("/roles"))

    def role(self, name: str) -> Json:
        """One; its members are None for who may not give it."""
        return self.transport.get(f"/roles/{_quoted(name)}")

    def create_role(self, name: str, description: str = "") -> Json:
        """It gives nothing yet."""
        return self.transport.change("POST", "/roles", {"name": name, "description": description})

    def drop_role(self, name: str) -> None:
        """It is taken from all who have it."""
        self.transport.change("DELETE", f"/roles/{_quoted(name)}")

    def grant(
        self,
        role: str,
        privileges: Sequence[str],
        *,
        catalog: str | None = None,
        namespace: str | Sequence[str] = (),
        table: str | None = None,
    ) -> Json:
        """On a table, a namespace, a catalog or (nothing named) the server, and on all that lies in it.

        A namespace is given by its levels, or as people type it: `sales.eu`.
        """
        return self.transport.change(
            "POST", f"/roles/{_quoted(role)}/grants", _grant(privileges, catalog, namespace, table)
        )

    def revoke(
        self,
        role: str,
        privileges: Sequence[str],
        *,
        catalog: str | None = None,
        namespace: str | Sequence[str] = (),
        table: str | None = None,
    ) -> Json:
        """What was granted on exactly this."""
        return self.transport.change(
            "POST", f"/roles/{_quoted(role)}/grants/revoke", _grant(privileges, catalog, namespace, table)
        )

    def assign(self, role: str, name: str) -> Json:
        """Give a user or service a role."""
        return self.transport.change("PUT", f"/roles/{_quoted(role)}/members/{_quoted(name)}")

    def unassign(self, role: str, name: str) -> Json:
        """Take it away."""
        return self.transport.change("DELETE", f"/roles/{_quoted(role)}/members/{_quoted(name)}")

    def principals(self, kind: Kind) -> Iterator[Json]:
        """Users or services, by name."""
        return self.transport.items(f"/{kind}")

    def principal(self, kind: Kind, name: str) -> Json:
        """One, with their roles."""
        return self.transport.get(f"/{kind}/{_quoted(name)}")

    def create_user(self, name: str, *, subject: str | None = None) -> Json:
        """With a subject they sign in by OIDC."""
        return self.transport.change("POST", "/users", {"name": name, "subject": subject})

    def create_service(self, name: str) -> Json:
        """Its `client_secret` is told this once."""
        return self.transport.change("POST", "/services", {"name": name})

    def new_secret(self, service: str) -> Json:
        """Another client secret; the old one and the service's tokens end."""
        return self.transport.change("POST", f"/services/{_quoted(service)}/secret")

    def set_disabled(self, kind: Kind, name: str, *, disabled: bool) -> Json:
        """Whether their tokens open anything."""
        verb = "disable" if disabled else "enable"
        return self.transport.change("POST", f"/{kind}/{_quoted(name)}/{verb}")

    def drop(self, kind: Kind, name: str) -> None:
        """With their tokens."""
        self.transport.change("DELETE", f"/{kind}/{_quoted(name)}")

    def audit(self, filters: Mapping[str, str | bool | None] | None = None, *, limit: int | None = None) -> list[Json]:
        """Requests, newest first; see the server's `GET /audit` for the filters."""
        return list(self.transport.items("/audit", filters, limit=limit))


def _grant(privileges: Sequence[str], catalog: str | None, namespace: str | Sequence[str], table: str | None) -> Json:
    levels = split_name(namespace) if isinstance(namespace, str) else namespace
    on = {"catalog": catalog, "namespace": list(levels), "table": table}
    return {"on": on, "privileges": list(privileges)}


def _quoted(part: str) -> str:
    return quote(part, safe="")
