"""The check that a server still leads, in the transaction that writes what only a leader may write."""

from __future__ import annotations

from collections.abc import Callable

from catalog.ports.store import UnitOfWork

Fence = Callable[[UnitOfWork], bool]
"""Returns whether this server still leads; its caller asks in the transaction that writes."""


def always_leads(_uow: UnitOfWork) -> bool:
    """The fence of a server that runs alone."""
    return True
