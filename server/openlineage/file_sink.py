"""A file of OpenLineage events, one JSON document a line. It is opened for each event, so it may be renamed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catalog.errors import Unavailable


@dataclass(frozen=True)
class FileSink:
    """Appends to the file."""

    path: Path

    def send(self, event: bytes) -> None:
        """See catalog.ports.lineage_events.LineageSink."""
        try:
            with self.path.open("ab") as file:
                file.write(event + b"\n")
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be written: {error.strerror or error}") from error
