"""Records of a topic as people see them before any table takes them: what each tells, and which format fits."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.kafka.cluster import KafkaRecord
from firn.protocol.cdc.debezium import Reader
from firn.protocol.cdc.envelope import NOT_GIVEN, BadRecord

LARGEST_BYTES = 1_000_000
"""A look at a topic decodes no larger records: one of 10 MB would take the server's memory many times over."""
TOO_LARGE = "the record is too large for a look at it"
LONG_NAME = "the name of the source's table is too long"
LONGEST_SOURCE = 300
LONGEST_TEXT = 1_000
"""In characters: a look keeps no more of a value. A list of Avro can be a text many times as long as its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRecord:
    """A record, and what it tells. `row` has the values of its first change as text, None for null."""

    record: KafkaRecord
    source: str | None = None
    kind: str | None = None
    op: str | None = None
    row: Mapping[str, str | None] | None = None
    problem: str | None = None


def measure(record: KafkaRecord) -> int:
    """The bytes of key and value."""
    return len(record.key or b"") + len(record.value or b"")


def describe_record(read: Reader, record: KafkaRecord) -> SampledRecord:
    """What a record tells; its `problem` if it is no envelope of the reader's format."""
    if measure(record) > LARGEST_BYTES:
        return SampledRecord(record=record, problem=TOO_LARGE)
    try:
        envelope = read(record.key, record.value)
    except BadRecord as bad:
        return SampledRecord(record=record, problem=str(bad))
    source = None if envelope.source is None else envelope.source.name
    if source is not None and len(source) > LONGEST_SOURCE:
        return SampledRecord(record=record, problem=LONG_NAME)
    if not envelope.changes:
        return SampledRecord(record=record, source=source, kind=envelope.kind)
    change = envelope.changes[-1]
    row = {name: _write(value) for name, value in change.values.items()}
    return SampledRecord(record=record, source=source, kind=envelope.kind, op=change.op, row=row)


def guess_format(records: Sequence[KafkaRecord], readers: Mapping[str, Reader]) -> str | None:
    """The format in which most records name a table of the source; None if none does in any."""
    counts = {
        name: sum(describe_record(read, record).source is not None for record in records)
        for name, read in readers.items()
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else None


def _write(value: object) -> str | None:
    if value is None:
        return None
    if value is NOT_GIVEN:
        return "(not sent)"
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
    return text[:LONGEST_TEXT]
