"""Answers about consumers, which read the changes of a keyed table."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.base import Out


class ConsumerOut(Out):
    """One consumer. It has the changes up to `version`; `kept_until` says how long expiry keeps the later ones.

    `lag_versions` and `lag_rows` count what it has not read. The first of these versions was committed
    `lag_seconds` ago. If the consumer cannot read on, `first_version_left` is the first version from which it could.
    """

    name: str
    version: int
    created_at: datetime
    moved_at: datetime
    kept_until: datetime
    owner: str | None
    lag_versions: int
    lag_rows: int
    lag_seconds: float
    first_version_left: int | None
