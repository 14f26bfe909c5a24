"""What a demo claims, it checks."""

from __future__ import annotations


class DemoFailed(Exception):
    """Something that the demo claims did not hold."""


def require(holds: bool, claim: str) -> None:  # noqa: FBT001 -- what holds is the point
    """Raise DemoFailed where a claim does not hold."""
    if not holds:
        raise DemoFailed(claim)
