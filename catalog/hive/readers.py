"""Who can read rows of Hive tables that cannot be upgraded: Hive's own classes inside Spark, Spark itself, or Firn.

Spark carries Hive 2.3's serializers. None of them reads JSON, so that is read by Firn. Their reader of Parquet has no
decimals of short precision as Spark writes them, so Spark reads Parquet by its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.hive.model import HiveStorage
from firn.protocol.tasks.convert import Reader

CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
_TEXT = "org.apache.hadoop.mapred.TextInputFormat"
_SEQUENCE = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_RCFILE = "org.apache.hadoop.hive.ql.io.RCFileInputFormat"
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
_ORC = "org.apache.hadoop.hive.ql.io.orc"
_READERS: Mapping[str, tuple[Reader, frozenset[str]]] = {
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe": (Reader.SERDE, frozenset({_TEXT, _SEQUENCE})),
    CSV: (Reader.SERDE, frozenset({_TEXT})),
    "org.apache.hadoop.hive.serde2.RegexSerDe": (Reader.SERDE, frozenset({_TEXT})),
    "org.apache.hadoop.hive.serde2.columnar.ColumnarSerDe": (Reader.SERDE, frozenset({_RCFILE})),
    f"{_PARQUET}.serde.ParquetHiveSerDe": (Reader.PARQUET, frozenset({f"{_PARQUET}.MapredParquetInputFormat"})),
    f"{_ORC}.OrcSerde": (Reader.SERDE, frozenset({f"{_ORC}.OrcInputFormat"})),
    "org.apache.hive.hcatalog.data.JsonSerDe": (Reader.JSON, frozenset({_TEXT})),
    "org.apache.hadoop.hive.serde2.JsonSerDe": (Reader.JSON, frozenset({_TEXT})),
    "org.openx.data.jsonserde.JsonSerDe": (Reader.JSON, frozenset({_TEXT})),
}
_NO_SETTING = frozenset({"serialization.format", "path"})


def choose_reader(storage: HiveStorage) -> Reader | None:
    """Who can read files under this descriptor; None for nobody."""
    reader, inputs = _READERS.get(storage.serde, (None, frozenset()))
    return reader if storage.input_format in inputs else None


def find_unknown_settings(storage: HiveStorage) -> list[str]:
    """What a descriptor sets for its JSON serializer: these classes differ in what they understand by it."""
    if choose_reader(storage) is not Reader.JSON:
        return []
    return sorted(storage.serde_parameters.keys() - _NO_SETTING)
