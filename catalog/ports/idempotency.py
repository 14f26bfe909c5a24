"""Idempotency keys: a request that comes again under its key gets the response of the first time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """What a request with this idempotency key was answered."""

    key: str
    fingerprint: str
    status: int
    body: bytes
    created_at: datetime


class IdempotencyKeys(Protocol):
    """Answers given under idempotency keys."""

    def find(self, key: str) -> StoredResponse | None: ...
    def add(self, answer: StoredResponse) -> None: ...
    def remove_before(self, moment: datetime) -> int: ...
