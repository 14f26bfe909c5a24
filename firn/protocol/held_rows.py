"""A sample of the rows that a held run would change, as optimizer, server and client exchange it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from firn.protocol.base import Message, Out, Request

MOST_OF_A_KIND = 30
"""The rows of one kind in a sample: new, changed and deleted ones."""
LONGEST_VALUE = 200
"""The characters of a value that a sample keeps."""
MOST_CHARACTERS = 200_000
"""The characters of a sample, with the names of its columns."""
_Value = Annotated[str | None, Field(max_length=LONGEST_VALUE)]
_Name = Annotated[str, Field(max_length=255)]


class SampledRow(Message):
    """A row before and after the commit; None before for a new row, and after for a deleted one.

    Values are texts as Spark writes them, binary ones in hexadecimal digits.
    """

    before: dict[_Name, _Value] | None
    after: dict[_Name, _Value] | None

    def count_characters(self) -> int:
        """The characters of names and values."""
        sides = [side for side in (self.before, self.after) if side is not None]
        return sum(len(name) + len(value or "") for side in sides for name, value in side.items())


class RowSample(Request):
    """Some of the rows that a commit changes in one table, and their counts, as far as they are known."""

    rows: Annotated[list[SampledRow], Field(max_length=3 * MOST_OF_A_KIND)]
    written: int | None = None
    deleted: int | None = None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if sum(row.count_characters() for row in self.rows) > MOST_CHARACTERS:
            raise ValueError(f"a sample has at most {MOST_CHARACTERS:,} characters")
        return self


class HeldRowsOut(Out):
    """What publishing the held run of a table would do: counts, and some of the rows.

    `written` and `deleted` are None if nobody counted them. Values are cut after 200 characters.
    """

    job_id: str
    table: str
    held_at: datetime
    written: int | None
    deleted: int | None
    rows: list[SampledRow]
