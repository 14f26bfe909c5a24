"""Waits for what another thread or process does: guards against hanging, no measurements."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

LONG = 240.0
"""Seconds after which a wait has failed: longer than a machine stands still, shorter than a test may take."""


def wait_for(
    reached: Callable[[], object], description: str = "the state", *, seconds: float = LONG, pause: float = 0.05
) -> None:
    """Wait for a state; `seconds` are those of a free machine, and the bound grows with the load."""
    give_up = time.monotonic() + seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    while not reached():
        assert time.monotonic() < give_up, f"never came: {description}"
        time.sleep(pause)
