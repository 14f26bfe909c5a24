"""Which file format a storage descriptor means."""

from __future__ import annotations

from enum import StrEnum


class HiveFormat(StrEnum):
    """Formats that Hive tables are commonly stored in."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"
    JSON = "json"
    TEXT = "text"
    RCFILE = "rcfile"
    SEQUENCE = "sequence"
    ICEBERG = "iceberg"
    OTHER = "other"


_SERDES = {
    "parquethiveserde": HiveFormat.PARQUET,
    "orcserde": HiveFormat.ORC,
    "avroserde": HiveFormat.AVRO,
    "jsonserde": HiveFormat.JSON,
    "icebergserde": HiveFormat.ICEBERG,
    "hiveicebergserde": HiveFormat.ICEBERG,
    "columnarserde": HiveFormat.RCFILE,
    "lazybinarycolumnarserde": HiveFormat.RCFILE,
    "opencsvserde": HiveFormat.TEXT,
    "regexserde": HiveFormat.TEXT,
    "multidelimitserde": HiveFormat.TEXT,
}


def format_of(serde: str, input_format: str) -> HiveFormat:
    """The serializer decides; only LazySimpleSerDe needs the input format to tell text from sequence files.

    A Parquet serializer over an input format that is not Parquet's own (Hudi's, for example) is `other`: the files may
    be Parquet, but which of them count is for that input format to say.
    """
    known = _SERDES.get(serde.rpartition(".")[2].lower())
    reader = input_format.rpartition(".")[2].lower()
    if known is HiveFormat.PARQUET:
        return known if reader == "mapredparquetinputformat" else HiveFormat.OTHER
    if known is not None:
        return known
    if "lazysimpleserde" in serde.lower():
        return HiveFormat.SEQUENCE if "sequencefile" in reader else HiveFormat.TEXT
    return HiveFormat.OTHER
