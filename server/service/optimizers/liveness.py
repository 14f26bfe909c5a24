"""Measures how long a launch has been silent while this server has listened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.launch.settings import LaunchId

MAX_OBSERVED_SECONDS = 15.0
"""Maximum that one observation adds to a silence, no matter how long ago the one before it was."""


@dataclass
class Liveness:
    """Silence counts only while this server listens, by a monotonic clock.

    While the server does not lead, does not run or has no database, no optimizer can reach it. After that, an optimizer
    needs some time to reconnect.
    """

    clock: Callable[[], float] = time.monotonic
    _observed_at: float | None = None
    _silent: Mapping[LaunchId, tuple[datetime | None, float]] = field(default_factory=dict)

    def observe(self, signs: Mapping[LaunchId, datetime | None]) -> None:
        """Record the last sign of life of each launch's optimizer; None for a launch without an optimizer."""
        now = self.clock()
        passed = 0.0 if self._observed_at is None else min(now - self._observed_at, MAX_OBSERVED_SECONDS)
        self._observed_at = now
        self._silent = {launch: (sign, self._count_seconds(launch, sign, passed)) for launch, sign in signs.items()}

    def _count_seconds(self, launch: LaunchId, sign: datetime | None, passed: float) -> float:
        before = self._silent.get(launch)
        return before[1] + passed if before is not None and before[0] == sign else 0.0

    def silent_for(self, launch: LaunchId) -> timedelta:
        """The silence since the last sign of life, or since the first observation; zero without observations."""
        _, seconds = self._silent.get(launch, (None, 0.0))
        return timedelta(seconds=seconds)
