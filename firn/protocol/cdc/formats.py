"""The formats of change data capture in JSON, by the name that `firn.log.format` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from firn.protocol.cdc.canal import read_canal
from firn.protocol.cdc.debezium import Reader, read_debezium
from firn.protocol.cdc.dms import read_dms
from firn.protocol.cdc.envelope import Envelope
from firn.protocol.cdc.maxwell import read_maxwell

DEBEZIUM_JSON, CANAL_JSON, MAXWELL_JSON, DMS_JSON = "debezium-json", "canal-json", "maxwell-json", "dms-json"
_READERS: Mapping[str, Reader] = {
    DEBEZIUM_JSON: read_debezium,
    CANAL_JSON: read_canal,
    MAXWELL_JSON: read_maxwell,
    DMS_JSON: read_dms,
}
CDC_JSON_FORMATS = tuple(_READERS)


def read_envelope(format: str, key: bytes | None, value: bytes | None) -> Envelope:
    """Read key and value of a record; BadRecord if it is no envelope of the format."""
    return _READERS[format](key, value)
