"""The cloud that gives credentials and takes signed requests, seen by the services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from catalog.credentials.storage_config import StorageConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Credentials for S3; without an expiry they hold until somebody ends them."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSign:
    """A request that was found to be allowed; nothing but these headers is signed."""

    method: str
    url: str
    headers: Mapping[str, str]
    payload: str
    """What `x-amz-content-sha256` says of the body."""
    region: str


class Cloud(Protocol):
    """AWS, or what speaks its protocols, with the server's own keys."""

    def assume(self, storage: StorageConfig, *, session_name: str, policy: str) -> Keys:
        """Keys of the catalog's role, limited by the policy; Unavailable when none are given."""

    def signature(self, request: ToSign) -> Mapping[str, str]:
        """The headers that make S3 take the request for one of the server's; Unavailable without keys."""
