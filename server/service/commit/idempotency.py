"""Idempotency keys: the transaction that applies a request also stores its answer under the key of the request.

The first stored answer wins, whether it is an applied change or a refusal. The transaction of a concurrent repetition
then fails on the key. So a stored refusal is final, and the server may send it to the client.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from catalog.ports.idempotency import StoredResponse
from catalog.ports.store import UnitOfWork

APPLIED = 200
"""The stored status of an applied request; the route knows whether it answers 200 or 204."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """The key of a client's request, and a digest of the request, which reveals a reuse of the key.

    A key belongs to its owner: no other principal gets the stored answer, even if it knows the key.
    """

    key: str
    fingerprint: str
    owner: str = ""
    """The principal's id; empty where access control is off."""

    @property
    def stored_under(self) -> str:
        """The database key of the stored answer."""
        return f"{self.owner}/{self.key}" if self.owner else self.key


def remember(uow: UnitOfWork, request: Idempotency | None, body: object = None) -> None:
    """Store the answer of an applied request; raises Conflict when a repetition has just stored one."""
    if request is not None:
        settle(uow, request, status=APPLIED, body=orjson.dumps(body))


def settle(uow: UnitOfWork, request: Idempotency, *, status: int, body: bytes) -> None:
    """Store an answer; raises Conflict when the key has one already."""
    uow.idempotency_keys.add(
        StoredResponse(
            key=request.stored_under, fingerprint=request.fingerprint, status=status, body=body, created_at=uow.now()
        ),
    )
