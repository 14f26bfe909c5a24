"""A clock that tests set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from server.store.unit_of_work import SqlUnitOfWork

HOUR = timedelta(hours=1)


@dataclass
class Clock:
    """The real one, set wrong."""

    wrong: timedelta = timedelta()

    def set(self, time: datetime) -> None:
        """It is this time now; the clock goes on from there."""
        self.wrong = time - datetime.now(UTC)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.wrong


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake_clock = Clock()
    monkeypatch.setattr(SqlUnitOfWork, "now", fake_clock.now)  # a bound method stays bound
    return fake_clock
