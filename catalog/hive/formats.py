"""Which file format a storage descriptor means."""

from __future__ import annotations

from enum import StrEnum

from catalog.files.data_file import FileFormat


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


REGISTERED = {
    HiveFormat.PARQUET: FileFormat.PARQUET,
    HiveFormat.ORC: FileFormat.ORC,
    HiveFormat.AVRO: FileFormat.AVRO,
}
"""Formats whose files Iceberg can read where they are."""
_READERS = {
    HiveFormat.PARQUET: "mapredparquetinputformat",
    HiveFormat.ORC: "orcinputformat",
    HiveFormat.AVRO: "avrocontainerinputformat",
}


def detect_format(serde: str, input_format: str) -> HiveFormat:
    """The serializer decides; only LazySimpleSerDe needs the input format to tell text from sequence files.

    A serializer over an input format that is not its format's own (Hudi's over Parquet, for example) is `other`: which
    of the files count is for that input format to say.
    """
    file_format = _SERDES.get(serde.rpartition(".")[2].lower())
    reader = input_format.rpartition(".")[2].lower()
    if file_format in _READERS:
        return file_format if reader == _READERS[file_format] else HiveFormat.OTHER
    if file_format is not None:
        return file_format
    if "lazysimpleserde" in serde.lower():
        return HiveFormat.SEQUENCE if "sequencefile" in reader else HiveFormat.TEXT
    return HiveFormat.OTHER
