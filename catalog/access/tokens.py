"""Bearer tokens: `firn_<id>_<secret>`. The id identifies a token for the database, for people and for scanners of
leaked secrets.

The secret is 256 random bits, and Firn stores its hash. A slow hash (bcrypt, argon2) protects secrets that people
choose. It would not help against guessing 256 bits, and it would cost every request that is not cached.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from catalog.access.privileges import PrincipalId, RoleName
from catalog.names import CatalogName

PREFIX = "firn_"
_TOKEN = re.compile(r"firn_([0-9a-f]{12})_([0-9a-f]{64})")


class TokenKind(StrEnum):
    """The origin of a token."""

    BEARER = "bearer"  # requested by a user
    ACCESS = "access"  # given for a client secret or another token; valid for about an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret.

    It gives its owner's current roles, limited to `roles` and `catalogs`.
    """

    id: str
    kind: TokenKind
    owner: PrincipalId
    name: str
    hash: bytes = field(repr=False)
    created_at: datetime
    expires_at: datetime | None
    roles: tuple[RoleName, ...] | None = None
    catalogs: tuple[CatalogName, ...] | None = None
    origin: str | None = None
    """The token that it was exchanged for or derived from. It ends with that token."""
    renewable_until: datetime | None = None
    """The end of an access token's chain of exchanges; none of them is valid longer."""
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_good(self, now: datetime) -> bool:
        """Whether it is still valid."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def compute_exchange_end(
    now: datetime, longest: timedelta, subject: Token | None, until: datetime | None = None
) -> datetime:
    """The end of the chain of exchanges that an exchange continues or starts.

    A client secret, a bearer token or an issuer's token (valid `until` then) starts a chain, which ends with it at the
    latest. An access token is in a chain already: its exchange does not extend the chain.
    """
    if subject is not None and subject.kind is TokenKind.ACCESS:
        return subject.renewable_until or subject.expires_at or now
    ends = (now + longest, until, None if subject is None else subject.expires_at)
    return min(end for end in ends if end is not None)


@dataclass(frozen=True, slots=True)
class Secret:
    """A token or client secret in clear text; shown once."""

    id: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        """The stored hash."""
        return digest(self.text)

    def matches(self, kept: bytes) -> bool:
        """Whether the hash equals the stored one, in constant time."""
        return hmac.compare_digest(self.hash, kept)


def create_secret() -> Secret:
    """A new random secret."""
    identity = secrets.token_hex(6)
    return Secret(identity, f"{PREFIX}{identity}_{secrets.token_hex(32)}")


def parse_secret(text: str) -> Secret | None:
    """The token of a header; None if it does not have Firn's form."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Secret(match[1], text)


def digest(text: str) -> bytes:
    """The hash under which the database stores a secret. Secrets are random and long, so SHA-256 needs no salt."""
    return hashlib.sha256(text.encode()).digest()
