"""Bearer tokens: `firn_<id>_<secret>`, so that they are found by id, by people and by scanners for leaked secrets.

The secret is 256 random bits, of which the hash is kept. A slow hash (bcrypt, argon2) protects what people choose; it
would buy nothing against somebody who has to guess 256 bits, and cost every request that is not remembered.
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
    """How a token came to be."""

    BEARER = "bearer"  # somebody asked for it
    ACCESS = "access"  # given for a client's secret or in exchange for another token; lives for an hour or so


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as it is kept: everything but the secret.

    It gives what its owner's roles give at the moment of a request: at most `roles` of them, at most in `catalogs`.
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
    """The token that it was exchanged for, or made with: it ends with that one."""
    renewable_until: datetime | None = None
    """The end of the chain of exchanges that an access token is in: none of it lives longer."""
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_good(self, now: datetime) -> bool:
        """Whether it still opens anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def compute_exchange_end(
    now: datetime, longest: timedelta, subject: Token | None, until: datetime | None = None
) -> datetime:
    """When the chain ends that an exchange goes on with or begins.

    A client's secret, a bearer token or an issuer's token (good `until` then) begins a chain, which lasts no longer
    than what it begins with. An access token is in a chain already: exchanging it prolongs nothing.
    """
    if subject is not None and subject.kind is TokenKind.ACCESS:
        return subject.renewable_until or subject.expires_at or now
    ends = (now + longest, until, None if subject is None else subject.expires_at)
    return min(end for end in ends if end is not None)


@dataclass(frozen=True, slots=True)
class Secret:
    """A token or client secret as its holder has it; shown once."""

    id: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        """What is kept of it."""
        return digest(self.text)

    def matches(self, kept: bytes) -> bool:
        """Whether this is what was given out; takes as long for a near miss as for any other."""
        return hmac.compare_digest(self.hash, kept)


def create_secret() -> Secret:
    """A fresh one, unlike any other."""
    identity = secrets.token_hex(6)
    return Secret(identity, f"{PREFIX}{identity}_{secrets.token_hex(32)}")


def parse_secret(text: str) -> Secret | None:
    """A token out of a header; None for what Firn has not made."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Secret(match[1], text)


def digest(text: str) -> bytes:
    """SHA-256."""
    return hashlib.sha256(text.encode()).digest()
