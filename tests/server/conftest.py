from __future__ import annotations

from tests.server.clocks import clock

__all__ = ["clock"]
