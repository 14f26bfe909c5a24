"""How long nothing was heard of a launch, as far as this server has listened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.launch.settings import LaunchId

MAX_OBSERVED_SECONDS = 15.0
"""Seconds that one look can add to a silence, however long ago the one before it was."""


@dataclass
class Liveness:
    """Silence counts only while somebody listens, by a clock that nobody sets.

    While this server did not lead, did not run or had no database, nobody could be heard: that is no launch's fault,
    and its optimizer needs a while to find the way back.
    """

    clock: Callable[[], float] = time.monotonic
    _looked_at: float | None = None
    _silent: Mapping[LaunchId, tuple[datetime | None, float]] = field(default_factory=dict)

    def observe(self, signs: Mapping[LaunchId, datetime | None]) -> None:
        """Look at all launches: when the optimizer of each was last seen, None while there is none."""
        now = self.clock()
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, MAX_OBSERVED_SECONDS)
        self._looked_at = now
        self._silent = {launch: (sign, self._seconds(launch, sign, passed)) for launch, sign in signs.items()}

    def _seconds(self, launch: LaunchId, sign: datetime | None, passed: float) -> float:
        before = self._silent.get(launch)
        return before[1] + passed if before is not None and before[0] == sign else 0.0

    def silent_for(self, launch: LaunchId) -> timedelta:
        """Since it was last heard, or first looked for; nothing on a server that does not look."""
        _, seconds = self._silent.get(launch, (None, 0.0))
        return timedelta(seconds=seconds)
