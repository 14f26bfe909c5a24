"""The quarantine of a table's log, `client.tables["db.t"].log.quarantine`: the records that are no changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firn.protocol.answers.quarantine import (
    QuarantineOut,
    QuarantineRecord,
    QuarantineRecordsOut,
    QuarantineWriterOut,
)
from firn.protocol.answers.writers import WriterOut
from firn.transport import Transport

NAME = "quarantine"
"""The quarantine's name in the namespace of the stores; also that of the writer that sends records again."""


@dataclass(frozen=True, slots=True)
class TableQuarantine:
    """A table's quarantine. There is none before the first bad record."""

    transport: Transport
    path: str

    def show(self) -> QuarantineOut:
        """How many records are in it."""
        return QuarantineOut.read(self.transport.get(self.path))

    def list(self, limit: int = 20) -> QuarantineRecordsOut:
        """The reasons of all records by count, and the newest records, without keys and values."""
        return QuarantineRecordsOut.read(self.transport.get(f"{self.path}/records", {"limit": limit}))

    def get(self, partition: int, offset: int) -> Sequence[QuarantineRecord]:
        """The records of this place as a whole: of a topic that was created again, there may be several. NotFound."""
        records = self.transport.get(f"{self.path}/records/{partition}/{offset}")
        return [QuarantineRecord.model_validate(record) for record in records]

    def drop(self, snapshot_id: str) -> QuarantineOut:
        """Delete all its rows, and return what there was. Refused if it has changed since this snapshot."""
        return QuarantineOut.read(self.transport.change("POST", f"{self.path}/drop", {"snapshot_id": snapshot_id}))

    def register(self, epoch: int, *, create: bool, stream_lease: str | None = None) -> WriterOut | None:
        """Register the drain with this epoch at the quarantine; None if there is no quarantine and none is created.

        Raises Invalid if another drain has registered at the table since.
        """
        body = {"epoch": epoch, "create": create, "stream_lease": stream_lease}
        answer = self.transport.change("POST", f"{self.path}/writer", body)
        return QuarantineWriterOut.read(answer).writer
