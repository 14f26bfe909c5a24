"""Where OpenLineage events go."""

from __future__ import annotations

from typing import Protocol


class LineageSink(Protocol):
    """An HTTP endpoint or a file."""

    def send(self, event: bytes) -> None:
        """Deliver one event, a JSON document.

        Raises Unavailable if the sink may take it later, and Invalid if it never will.
        """
