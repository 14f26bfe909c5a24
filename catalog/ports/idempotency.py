"""Idempotency keys: a repeated request with the same key gets the first response."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """The response to the first request with this idempotency key."""

    key: str
    fingerprint: str
    status: int
    body: bytes
    created_at: datetime


class IdempotencyKeys(Protocol):
    """Stored responses by idempotency key."""

    def find(self, key: str) -> StoredResponse | None: ...
    def add(self, answer: StoredResponse) -> None: ...
    def remove_before(self, moment: datetime) -> int: ...
