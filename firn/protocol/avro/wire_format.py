"""The first five bytes of a record: a zero, and the id of the schema with which the rest was written."""

from __future__ import annotations

import struct

AVRO, DEBEZIUM_AVRO = "avro", "debezium-avro"
"""The names of the formats in `firn.log.format`: plain rows, and envelopes of Debezium."""
AVRO_FORMATS = (AVRO, DEBEZIUM_AVRO)
PREFIX_BYTES = 5
MAGIC = 0
HIGHEST_SCHEMA_ID = 2**31 - 1


def read_schema_id(data: bytes | None) -> int | None:
    """The schema id of a key or value; None if it is not in the wire format."""
    if data is None or len(data) < PREFIX_BYTES or data[0] != MAGIC:
        return None
    number = int(struct.unpack(">i", data[1:PREFIX_BYTES])[0])
    return number if number >= 0 else None
