"""Types of columns, as Spark and as Iceberg write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import DIALECT

UNKNOWN: Final = "unknown"
_ICEBERG: Final = {
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "list": "array",
    "long": "bigint",
    **{name: name for name in ("boolean", "int", "float", "double", "date", "string", "binary", "decimal", "map")},
}
_SIMPLE: Final = (
    "bigint binary boolean date decimal(10,2) double float int smallint string timestamp timestamp_ntz tinyint variant"
)


def check_types(schema: Mapping[str, Mapping[str, str]]) -> None:
    """Raise InvalidDefinition for the first type that Spark does not have."""
    for table, columns in schema.items():
        for column, type_ in columns.items():
            if not _is_type(type_):
                near = get_close_matches(type_.lower(), _SIMPLE.split(), n=1)
                hint = f"did you mean {near[0]}?" if near else "write a type of Spark, such as bigint or array<string>"
                raise InvalidDefinition(f"{table}.{column} has the type {type_!r}, which is none of Spark", hint=hint)


def read_spark_type(iceberg_type: str) -> str:
    """The type of Spark for one of Iceberg; `unknown` if there is none. Such columns never count as equal."""
    words = re.findall(r"[a-z]\w*", iceberg_type.lower())
    if not words or any(word not in _ICEBERG for word in words):
        return UNKNOWN
    spark = re.sub(r"[a-z]+", lambda match: _ICEBERG[match[0]], iceberg_type.lower())
    return spark if _is_type(spark) else UNKNOWN


def name_type(spark_type: str) -> str:
    """A type of Spark as plans take it: `unknown` for one that the parser does not have."""
    return spark_type if _is_type(spark_type) else UNKNOWN


def _is_type(text: str) -> bool:
    try:
        return bool(text.strip()) and exp.DataType.build(text, dialect=DIALECT) is not None
    except (SqlglotError, RecursionError, ValueError):
        return False
