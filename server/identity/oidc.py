"""Checks tokens of an OpenID Connect issuer with its published keys."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import jwt

from catalog.access.privileges import RoleName, as_name
from catalog.errors import Unavailable
from catalog.ports.access import Claims

log = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with public keys, because with a shared secret every verifier could create tokens."""
LEEWAY_SECONDS = 30
"""How far the issuer's clock may differ from this server's."""
TIMEOUT = httpx.Timeout(5.0)
KEYS_FRESH_SECONDS = 600.0
"""The time after which the server notices that the issuer has withdrawn a key."""
PAUSE_SECONDS = 10.0
"""The pause between requests for an unknown key, so that invented key ids cannot flood the issuer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The accepted tokens, and the claims that the server reads."""

    issuer: str
    audience: str
    name_claim: str
    roles_claim: str
    """The path of the claim; dots separate levels: `realm_access.roles`."""
    roles: Mapping[str, RoleName]
    """The roles by the claim's values; if it is empty, the values are names of roles."""


@dataclass
class OidcIssuer:
    """See catalog.ports.access.Issuer."""

    settings: OidcSettings
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=TIMEOUT, follow_redirects=False))
    _keys: dict[str, jwt.PyJWK] = field(default_factory=dict)
    _read_at: float | None = None
    _tried_at: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def verified(self, token: str) -> Claims | None:
        """Get the claims of a token; None unless it is a valid token of this issuer for this server."""
        key = self._key_of(token)
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            log.info("a token of the issuer was refused", extra={"reason": str(error)})
            return None
        try:
            return self._read(claims)
        except (ValueError, TypeError, ArithmeticError, OSError) as error:  # a valid signature, but invalid values
            log.info("a token of the issuer was refused: a claim cannot be read", extra={"reason": str(error)})
            return None

    def _read(self, claims: Mapping[str, Any]) -> Claims:
        subject = _checked_text(str(claims["sub"]))
        name = claims.get(self.settings.name_claim)
        values = _read_values(claims, self.settings.roles_claim)
        mapped = self.settings.roles
        named = {RoleName(value) for value in values if _is_text(value)}
        roles = {mapped[value] for value in values if value in mapped} if mapped else named
        return Claims(
            issuer=self.settings.issuer,
            subject=subject,
            name=as_name(_checked_text(name) if isinstance(name, str) and name else subject),
            roles=frozenset(roles),
            expires_at=datetime.fromtimestamp(int(claims["exp"]), UTC),
        )

    def _key_of(self, token: str) -> jwt.PyJWK | None:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            return None
        key_id = header.get("kid")
        if header.get("alg") not in ALGORITHMS or not isinstance(key_id, str | None):
            return None
        return self._key(key_id or "")

    def _key(self, key_id: str) -> jwt.PyJWK | None:
        """Find a key by id; fetches the issuer's keys again for an unknown id, and periodically."""
        with self._lock:
            is_stale = self._read_at is None or time.monotonic() - self._read_at > KEYS_FRESH_SECONDS
            may_ask = self._tried_at is None or time.monotonic() - self._tried_at > PAUSE_SECONDS
            if may_ask and (is_stale or key_id not in self._keys):
                self._tried_at = time.monotonic()
                self._refresh()
            if self._read_at is None:
                raise Unavailable(f"the issuer {self.settings.issuer} could not be asked for its keys a moment ago")
            return self._keys.get(key_id)

    def _refresh(self) -> None:
        try:
            keys = _signing_keys(self._json(self._keys_url()))
        except (httpx.HTTPError, ValueError, KeyError, jwt.PyJWTError) as error:
            if not self._keys:
                raise Unavailable(f"the issuer {self.settings.issuer} cannot be asked for its keys: {error}") from error
            log.warning("the issuer's keys cannot be read anew", extra={"issuer": self.settings.issuer})
            return  # the known keys stay valid
        self._keys, self._read_at = keys, time.monotonic()

    def _keys_url(self) -> str:
        document = self._json(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self.settings.issuer:
            raise ValueError(f"it calls itself {document.get('issuer')}")
        return str(document["jwks_uri"])

    def _json(self, url: str) -> dict[str, Any]:
        answer = self.http.get(url).raise_for_status().json()
        if not isinstance(answer, dict):
            raise ValueError(f"{url} does not answer with a JSON object")  # noqa: TRY004 (the issuer's error, not a type error)
        return answer


def _signing_keys(document: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Parse the supported keys by id; an issuer may publish others."""
    keys = {}
    for key in document["keys"]:
        if key.get("use", "sig") != "sig":
            continue
        try:
            keys[key.get("kid", "")] = jwt.PyJWK(key)
        except jwt.PyJWTError:
            log.info("a key of the issuer is not supported", extra={"kid": key.get("kid")})
    return keys


def _checked_text(text: str) -> str:
    """Return the text; ValueError for one that no database can store."""
    text.encode()  # UnicodeEncodeError, a ValueError, for half a surrogate pair
    if "\0" in text:
        raise ValueError("a claim holds a NUL")
    return text


def _is_text(text: str) -> bool:
    try:
        _checked_text(text)
    except ValueError:
        return False
    return True


def _read_values(claims: Mapping[str, Any], path: str) -> list[str]:
    """Get the texts of a claim; empty when it is missing or has another type. A literal name with dots comes first."""
    claim: Any = claims.get(path)
    if claim is None:
        claim = claims
        for part in path.split("."):
            claim = claim.get(part) if isinstance(claim, dict) else None
    values = [claim] if isinstance(claim, str) else claim
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
