"""A drain's registration at the quarantine of its table, and the stops that bad records cause, for both engines.

See docs/protocols.md, rules 6.11 and 6.12.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from firn.client import TableHandle
from firn.drains.drain import TRIES
from firn.drains.errors import DrainOvertaken, DrainStopped
from firn.errors import FirnError, Invalid
from firn.logs import LogBatch
from firn.names import Name
from firn.protocol.answers.writers import WriterOut
from firn.protocol.names import join_name
from firn.quarantine import NAME

FEWEST_RECORDS = 1_000
"""The share of bad records counts from so many records on: in a small batch, one bad record is a large share."""
QUARANTINE = "quarantine"
SHOWN = 3
"""Records or reasons in a message."""


@dataclass(kw_only=True)
class QuarantineWriter:
    """The copy of a drain at the quarantine. `writer` is None until there is a quarantine."""

    handle: TableHandle
    table: str
    """The keyed table's name in messages."""
    epoch: int
    """The drain's epoch at the change store."""
    stream_lease: str | None
    check: Callable[[], None]
    """Raises if the drain may not go on; called after each failed try."""
    pause: Callable[[float], None] = time.sleep
    writer: WriterOut | None = field(default=None, init=False)

    def register(self, *, create: bool) -> WriterOut | None:
        """Register the copy; None if there is no quarantine and none is created. DrainOvertaken for an older copy."""
        try:
            quarantine = self.handle.log.quarantine
            self.writer = quarantine.register(self.epoch, create=create, stream_lease=self.stream_lease)
        except Invalid:
            log_writer = self.handle.writers.get("log")
            if log_writer.epoch != self.epoch:
                raise DrainOvertaken.by(self.table, log_writer.registered_at) from None
            raise
        return self.writer

    def require(self) -> WriterOut:
        """The registration; creates the quarantine if there is none."""
        writer = self.writer or self.register(create=True)
        if writer is None:
            raise FirnError(f"{self.table}: the server has created no quarantine", hint="start the drain again")
        return writer

    def commit(
        self, batch: LogBatch, append: Callable[[str], None], describe: Callable[[Exception], str] = str
    ) -> None:
        """Append a batch's bad records once, with a step of the quarantine's own position (docs/protocols.md, 6.12).

        `append` takes the position that its commit reaches; `describe` words its last failure. Creates the quarantine
        if there is none. Raises DrainOvertaken, what `check` raises, and FirnError after the last try.
        """
        self.require()
        position = self.name_next(batch.position)
        for attempt in range(1, TRIES + 1):
            try:
                append(position)
            except Exception as error:  # engines throw many types of errors; the quarantine's position matters
                self.check()
                if self.has_reached(position):
                    break
                if attempt == TRIES:
                    raise self.build_failure(describe(error)) from error
                self.pause(0.5 * 2**attempt)
            else:
                break
        self.note(position)

    def has_reached(self, position: str) -> bool:
        """Whether the quarantine has the commit of this position; DrainOvertaken if another drain has registered."""
        mine = self.require()
        name = self.handle.name
        quarantine = Name(name.catalog, join_name([*name.parts, NAME]))
        now = TableHandle(self.handle.transport, quarantine).writers.get(mine.name)
        if now.epoch != mine.epoch or now.fenced_at is not None:
            raise DrainOvertaken.by(self.table, now.registered_at)
        return now.position == position

    def note(self, position: str) -> None:
        """Remember the position that a commit has reached."""
        self.writer = self.require().model_copy(update={"position": position})

    def name_next(self, batch_position: str) -> str:
        """The position of the next commit: its number, and the end of the batch."""
        return f"{_read_number(self.require().position) + 1} {batch_position}"

    def build_summary(self, position: str) -> dict[str, str]:
        """The step of the quarantine's own position, for the summary of the commit's snapshot."""
        writer = self.require()
        return {
            "firn.writer-id": writer.name,
            "firn.writer-epoch": str(writer.epoch),
            "firn.position-from": writer.position or "none",
            "firn.position": position,
        }

    def build_failure(self, why: str) -> FirnError:
        """The error of a drain that has used up its tries."""
        return FirnError(
            f"{self.table}: the drain could not write bad records to the quarantine: {why}",
            hint="start the drain again: it goes on from the table's position",
        )


def build_bad_record_stop(table: str, first: str) -> DrainStopped:
    """The stop of a drain whose table quarantines nothing."""
    return DrainStopped(
        f"{table}: the log has records that are no changes of the table: {first}",
        hint="correct the producer and the table's columns, or set firn.log.bad-rows to quarantine; "
        "`firn log check` shows the newest records",
    )


def build_share_stop(table: str, *, count: int, total: int, share: float, reasons: str) -> DrainStopped:
    """The stop of a drain with too many bad records."""
    return DrainStopped(
        f"{table}: {count:,} of {total:,} records are no changes of the table, more than "
        f"firn.log.max-bad-share={share:g} allows: {reasons}",
        hint="correct the producer or the table's columns; if these records may go to the quarantine, raise "
        "firn.log.max-bad-share",
    )


def describe_reason(reason: str, column: str | None) -> str:
    """A reason for people, with its column."""
    return reason if column is None else f"{reason} (column {column})"


def _read_number(position: str | None) -> int:
    """The number of the commit that reached a position of the quarantine."""
    number = (position or "").partition(" ")[0]
    return int(number) if number.isascii() and number.isdecimal() else 0
