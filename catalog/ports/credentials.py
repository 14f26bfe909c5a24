"""The port to the cloud that gives credentials and accepts signed requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from catalog.credentials.storage_config import StorageConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Credentials for S3; without `expires_at` they are valid until revoked."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSign:
    """An allowed request to sign. Only these headers are signed."""

    method: str
    url: str
    headers: Mapping[str, str]
    payload: str
    """The value of `x-amz-content-sha256`."""
    region: str


class Cloud(Protocol):
    """AWS or a compatible service, used with the server's own keys."""

    def assume(self, storage: StorageConfig, *, session_name: str, policy: str) -> Keys:
        """Keys of the catalog's role, limited by the policy; Unavailable if the cloud gives none."""

    def signature(self, request: ToSign) -> Mapping[str, str]:
        """The headers with the server's signature; Unavailable without keys."""
