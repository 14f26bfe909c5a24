"""Some of the rows that a held run would change, for the people who decide about it (docs/protocols.md, rule 8.17)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import BinaryType, StructField, StructType

from firn.protocol.held_rows import LONGEST_VALUE, MOST_CHARACTERS, MOST_OF_A_KIND, SampledRow

BEFORE, AFTER = "before", "after"
"""The row as the table has it, and as it would have it: structs of one type, one of which is null."""


def sample_rows(changes: DataFrame) -> list[SampledRow]:
    """Collect some new, changed and deleted rows of a frame with the structs `before` and `after`.

    Spark turns the values into texts: Python has no dates before the year 1. It reads the frame once for each kind.
    """
    is_new, is_gone = F.col(BEFORE).isNull(), F.col(AFTER).isNull()
    kinds = (is_new & ~is_gone, ~is_new & ~is_gone, is_gone & ~is_new)
    parts = [changes.where(kind).limit(MOST_OF_A_KIND) for kind in kinds]
    kind = changes.schema[AFTER].dataType
    assert isinstance(kind, StructType)  # noqa: S101
    texts = [_write_texts(side, kind).alias(side) for side in (BEFORE, AFTER)]
    rows = reduce(DataFrame.unionAll, parts).select(*texts).collect()
    names = kind.fieldNames()
    return _limit([SampledRow(before=_name(names, row[0]), after=_name(names, row[1])) for row in rows])


def _write_texts(side: str, kind: StructType) -> Column:
    texts = [_write_text(F.col(side).getField(field.name), field) for field in kind.fields]
    return F.when(F.col(side).isNotNull(), F.array(*texts))


def _write_text(value: Column, field: StructField) -> Column:
    text = F.hex(value) if isinstance(field.dataType, BinaryType) else value.cast("string")
    return F.substring(text, 1, LONGEST_VALUE)


def _name(names: Sequence[str], values: Sequence[str | None] | None) -> dict[str, str | None] | None:
    return None if values is None else dict(zip(names, values, strict=True))


def _limit(rows: Sequence[SampledRow]) -> list[SampledRow]:
    """As many of the rows as a sample may hold; rows that are too wide are left out."""
    kept, characters = list[SampledRow](), 0
    for row in rows:
        if characters + row.count_characters() <= MOST_CHARACTERS:
            kept.append(row)
            characters += row.count_characters()
    return kept
