"""A try of the light engine at a table, by a program that can go on in Spark."""

from __future__ import annotations

from dataclasses import dataclass

import firn.drains
from firn.client import TableHandle
from firn.drains.drain import Drained
from firn.drains.engine import require_packages
from firn.drains.errors import NeedsSpark


@dataclass
class LightAttempt:
    """What the light engine has done, and why it needs Spark for the rest."""

    handle: TableHandle
    commits: int = 0
    records: int = 0
    reason: str | None = None
    added_columns: tuple[str, ...] = ()

    def run(self) -> Drained | None:
        """Drain the table; None if Spark has to go on."""
        drain = None
        try:
            require_packages()
            drain = firn.drains.open_light_drain(self.handle)
            return drain.run()
        except NeedsSpark as error:
            self.reason = error.message
            if drain is not None:
                self.added_columns = tuple(drain.new_columns.added)
            if drain is not None and drain.done is not None:
                self.commits, self.records = drain.done.commits, drain.done.most_records
            return None
