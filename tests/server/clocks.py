"""A clock that tests set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from server.store.unit_of_work import SqlUnitOfWork

HOUR = timedelta(hours=1)


@dataclass
class Clock:
    """The real one, set wrong; after `stop` only the test moves it."""

    wrong: timedelta = timedelta()
    stopped_at: datetime | None = None

    def set(self, time: datetime) -> None:
        """It is this time now; the clock goes on from there, unless it is stopped."""
        self.wrong = time - (self.stopped_at or datetime.now(UTC))

    def stop(self) -> None:
        """Time passes only by `wrong`, also when the machine stands still: for leases and pauses of seconds."""
        self.stopped_at = datetime.now(UTC)

    def now(self) -> datetime:
        return (self.stopped_at or datetime.now(UTC)) + self.wrong


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake_clock = Clock()
    monkeypatch.setattr(SqlUnitOfWork, "now", fake_clock.now)  # a bound method stays bound
    return fake_clock
