"""The errors by which a drain ends."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from firn.errors import FirnError, Refused


class DrainStopped(Refused):
    """A drain cannot go on before somebody acts. All earlier batches are in the table."""


class DrainOvertaken(DrainStopped):
    """Another drain of the table has started since."""

    @classmethod
    def by(cls, table: str, started_at: datetime) -> Self:
        """The error of a drain that another one, which started at this time, has overtaken."""
        return cls(
            f"{table}: another drain has started at {started_at:%Y-%m-%d %H:%M:%S} UTC",
            hint="run one drain of a table at a time",
        )


class NeedsSpark(FirnError):
    """The light engine cannot drain a table, or a batch; the message says why. Nothing of the batch is written."""

    def __init__(self, message: str, *, is_of_table: bool = False) -> None:
        super().__init__(message)
        self.is_of_table = is_of_table
        """Whether no other batch of the table can be drained either."""
