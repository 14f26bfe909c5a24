"""A request that may come twice: the answer under its idempotency key is stored in the transaction that applies it.

Whichever is stored first under a key wins, an applied change or a refusal: the transaction of a twin that runs beside
it then fails on the key. So a refusal is final once it is stored, and may be told.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from catalog.ports.idempotency import StoredResponse
from catalog.ports.store import UnitOfWork

APPLIED = 200
"""What is stored of an applied request; the route knows which of 200 and 204 it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """The key a client has given its request, and a digest of the request to tell a reuse of the key by.

    Keys are their owner's: what somebody was answered is told to nobody else, whoever has seen the key.
    """

    key: str
    fingerprint: str
    owner: str = ""
    """The principal's id; empty where access control is off."""

    @property
    def stored_under(self) -> str:
        """The name of the stored answer."""
        return f"{self.owner}/{self.key}" if self.owner else self.key


def remember(uow: UnitOfWork, request: Idempotency | None, said: object = None) -> None:
    """Store what an applied request is answered from; Conflict when a twin of it was just settled."""
    if request is not None:
        settle(uow, request, status=APPLIED, body=orjson.dumps(said))


def settle(uow: UnitOfWork, request: Idempotency, *, status: int, body: bytes) -> None:
    """Store an answer; Conflict when the key has one."""
    uow.idempotency_keys.add(
        StoredResponse(
            key=request.stored_under, fingerprint=request.fingerprint, status=status, body=body, created_at=uow.now()
        ),
    )
