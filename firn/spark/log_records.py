"""Records of a log as changes of a table, in Spark. `catalog/kafka/records.py` has the same rules for a few records."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.cdc.rows import IGNORE, LACKS_COLUMN
from firn.protocol.names import quote_name
from firn.spark.cdc_records import decode_rows
from firn.spark.decoded import COLUMN, OFFSET, OWN, PARTITION, REASON, carry_record, select_rows
from firn.spark.target import Target

_CORRUPT, _RANK, _WHY, _VALUE, _KEY = "_firn_corrupt", "_firn_rank", "_firn_why", "_firn_value", "_firn_key"
_LOST = "_firn_lost"
_TEXTS, _REASON_TYPE = "_firn_texts", "struct<reason: string, column: string>"
_NO_CHANGE = "the record is no change of the table"
_Parts = Mapping[str, tuple[str, Sequence[StructField]]]
_Explain = Callable[[DataFrame, _Parts, Column], DataFrame]
FIRN_JSON, UPSERT_JSON = "firn-json", "upsert-json"


def read_records(spark: SparkSession, batch: LogBatch, options: Mapping[str, str]) -> DataFrame:
    """Read the committed records of a batch, with headers. Records of aborted transactions do not appear."""
    reader = spark.read.format("kafka").options(**options).option("subscribe", batch.topic)
    reader = reader.option("includeHeaders", "true")
    for name, offsets in (("startingOffsets", batch.start), ("endingOffsets", batch.end)):
        reader = reader.option(name, json.dumps({batch.topic: {str(number): at for number, at in offsets.items()}}))
    return reader.load()


def decode_changes(
    records: DataFrame,
    log: LogOut,
    target: Target,
    *,
    with_reasons: bool = True,
    schemas: Mapping[int, Sequence[str]] | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Decode records with Kafka's columns, see `firn.spark.decoded`. `schemas` are those of Avro records.

    `spark` is a session that has the table, by default that of the records.

    Without reasons, every bad record may have the same one. Whoever expects no bad record saves the code that tells
    reasons apart: it has a branch for each column, and costs even where it never runs.
    """
    json_decoder = _JSON_DECODERS.get(log.format)
    if json_decoder is None:
        decoded = decode_rows(records, log, target, schemas or {}, spark)
    else:
        explain = _explain if with_reasons else _detect
        decoded = json_decoder(records, target, explain, finds_unknown=log.schema_changes != IGNORE)
    decoder = F.when(F.col(REASON).isNotNull(), F.struct(F.col(REASON).alias("reason"), F.col(COLUMN).alias("column")))
    operations = (*target.operations, "D") if log.deletes == "ignore" else target.operations
    row = _check_row(target, operations) if with_reasons else _detect_bad_row(target, operations)
    named = _name_reason(decoded.withColumn(_WHY, F.coalesce(decoder, row, _check_deletes(log))))
    if log.deletes != "ignore":
        return named
    return select_rows(named, (F.col("_op") != "D") | F.col(REASON).isNotNull())


def keep_newest(changes: DataFrame, target: Target) -> DataFrame:
    """Keep the newest change of each key, on an insert-only table the oldest. `changes` has no bad records."""
    order = [F.col(quote_name(target.sequence_field)).desc()] if target.sequence_field else []
    order += [F.asc(name) if target.is_insert_only else F.desc(name) for name in (PARTITION, OFFSET)]
    window = Window.partitionBy(*[F.col(quote_name(key)) for key in target.key]).orderBy(*order)
    return changes.withColumn(_RANK, F.row_number().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def _decode_firn_json(records: DataFrame, target: Target, explain: _Explain, *, finds_unknown: bool) -> DataFrame:
    fields = [*target.fields, StructField("_op", StringType())]
    parsed = records.select(*carry_record(), "value", _parse("value", fields).alias(_VALUE))
    explained = explain(parsed, {"value": (_VALUE, fields)}, F.lit("value"))
    if finds_unknown:
        explained = _find_unknown(explained, target, fields, ~F.col(f"{_VALUE}._op").eqNullSafe("D"))
    explained = _name_reason(explained)
    columns = [F.col(f"{_VALUE}.{quote_name(field.name)}") for field in target.fields]
    return explained.select(*OWN, *columns, F.coalesce(F.col(f"{_VALUE}._op"), F.lit(target.default_op)).alias("_op"))


def _decode_upserts(records: DataFrame, target: Target, explain: _Explain, *, finds_unknown: bool) -> DataFrame:
    """Flink's `upsert-kafka`: a record without a value deletes the key."""
    keys = [field for field in target.fields if field.name in target.key]
    value, key = _parse("value", target.fields).alias(_VALUE), _parse("key", keys).alias(_KEY)
    parsed = records.select(*carry_record(), "key", "value", value, key)
    deletes = F.col("value").isNull()
    parts = {"key": (_KEY, keys), "value": (_VALUE, target.fields)}
    explained = explain(parsed, parts, F.when(deletes, "key").otherwise("value"))
    explained = _name_reason(_find_unknown(explained, target, target.fields, ~deletes) if finds_unknown else explained)
    columns = [
        (
            F.when(deletes, F.col(f"{_KEY}.{name}")).otherwise(F.col(f"{_VALUE}.{name}"))
            if field.name in target.key
            else F.when(~deletes, F.col(f"{_VALUE}.{name}"))
        ).alias(field.name)
        for field in target.fields
        for name in [quote_name(field.name)]
    ]
    return explained.select(*OWN, *columns, F.when(deletes, "D").otherwise(target.default_op).alias("_op"))


_JSON_DECODERS = {FIRN_JSON: _decode_firn_json, UPSERT_JSON: _decode_upserts}


def _parse(column: str, fields: Sequence[StructField]) -> Column:
    schema = StructType([StructField(field.name, field.dataType, nullable=True) for field in fields])
    schema = schema.add(StructField(_CORRUPT, StringType()))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(F.col(column).cast("string"), schema, options)


def _explain(parsed: DataFrame, parts: _Parts, has_row: Column) -> DataFrame:
    """Add why a record is no row of the table; null if it is one.

    `parts` maps key and value to their parsed columns and fields; `has_row` names the part that has the row.
    """
    texts = {part: F.when(_is_bad(column), _parse_texts(part)) for part, (column, _) in parts.items()}
    with_texts = parsed.withColumns({f"{_TEXTS}_{part}": text for part, text in texts.items()})
    why = F.lit(None).cast(_REASON_TYPE)
    for part, (column, fields) in parts.items():
        why = F.when(has_row == part, _explain_part(part, column, fields)).otherwise(why)
    return with_texts.withColumn(_WHY, why)


def _detect(parsed: DataFrame, parts: _Parts, has_row: Column) -> DataFrame:
    """Add one reason for all records that are no row of the table: those for which `_explain` has a reason."""
    is_bad = F.lit(False)
    for part, (column, _) in parts.items():
        text = F.col(part).cast("string")
        is_object = F.ltrim(text).startswith("{") & F.is_valid_utf8(text)
        is_bad = F.when(has_row == part, F.col(part).isNull() | ~is_object | _is_bad(column)).otherwise(is_bad)
    return parsed.withColumn(_WHY, F.when(is_bad, _reason(_NO_CHANGE)))


def _find_unknown(explained: DataFrame, target: Target, fields: Sequence[StructField], has_row: Column) -> DataFrame:
    """Add the reason of records that have a value without a column, and no other reason. A null is no loss.

    `fields` are those that the value was parsed for.
    """
    text = F.col("value").cast("string")
    known = F.array(*[F.lit(name) for name in (*target.columns, "_op")])
    unknown = F.array_except(F.json_object_keys(text), known)
    # Few records may have such names, so that only those are parsed once more, and of these a third time.
    lost = F.when(
        has_row & _may_have_more(text, [field.name for field in fields]),
        F.when(F.size(unknown) > 0, F.filter(unknown, lambda name: _parse_texts("value")[name].isNotNull())),
    )
    is_lost = F.col(_WHY).isNull() & (F.size(F.col(_LOST)) > 0)
    why = F.struct(F.lit(LACKS_COLUMN).alias("reason"), F.col(_LOST)[0].alias("column")).cast(_REASON_TYPE)
    return explained.withColumn(_LOST, lost).withColumn(_WHY, F.when(is_lost, why).otherwise(F.col(_WHY)))


def _may_have_more(text: Column, names: Sequence[str]) -> Column:
    """Whether a JSON object may have more names than those that have given values; true in case of doubt.

    Counting bytes takes a quarter of the time that parsing takes. Each name has a colon behind it, but texts such as
    times have some, too. Where there are more colons than values, those right behind a quote count, unless one stands
    behind white space or a single quote.
    """
    values = reduce(operator.add, [F.col(f"{_VALUE}.{quote_name(name)}").isNotNull().cast("int") for name in names])
    is_odd = reduce(operator.or_, [F.contains(text, F.lit(f"{before}:")) for before in (" ", "\t", "\n", "\r", "'")])
    return (_count(text, ":") > values) & ((_count(text, '":') > values) | is_odd)


def _count(text: Column, part: str) -> Column:
    """How often a part of ASCII characters occurs in a text."""
    return (F.octet_length(text) - F.octet_length(F.replace(text, F.lit(part), F.lit("")))) / len(part)


def _explain_part(part: str, parsed: str, fields: Sequence[StructField]) -> Column:
    text, texts = F.col(part).cast("string"), F.col(f"{_TEXTS}_{part}")
    why = (
        F.when(F.col(part).isNull(), _reason(f"the record has no {part}"))
        .when(~F.is_valid_utf8(text), _reason(f"the {part} is not UTF-8"))
        .when(_is_bad(parsed) & texts.isNull(), _reason(f"the {part} is not a JSON object"))
        .when(~F.ltrim(text).startswith("{"), _reason(f"the {part} is not a JSON object"))
    )
    for field in fields:
        is_lost = F.col(f"{parsed}.{quote_name(field.name)}").isNull() & texts[field.name].isNotNull()
        why = why.when(_is_bad(parsed) & is_lost, _reason(f"the {part} does not fit the column", field.name))
    return why.when(_is_bad(parsed), _reason(f"the {part} does not fit the columns"))


def _is_bad(parsed: str) -> Column:
    return F.col(parsed).isNull() | F.col(f"{parsed}.{_CORRUPT}").isNotNull()


def _parse_texts(part: str) -> Column:
    """The fields of a JSON object as texts, which are there even if a field does not fit its column."""
    return F.from_json(F.col(part).cast("string"), "map<string, string>")


def _name_reason(explained: DataFrame) -> DataFrame:
    return explained.withColumns({REASON: F.col(f"{_WHY}.reason"), COLUMN: F.col(f"{_WHY}.column")}).drop(_WHY)


def _reason(text: str, column: str | None = None) -> Column:
    return F.struct(F.lit(text).alias("reason"), F.lit(column).cast("string").alias("column")).cast(_REASON_TYPE)


def _check_row(target: Target, operations: Sequence[str]) -> Column:
    op = F.col("_op")
    why = F.when(~op.isin("I", "U", "D"), _reason("_op is not I, U or D", "_op"))
    if target.is_insert_only:
        why = why.when(~op.isin(*operations), _reason("the table is insert-only, and the record is no insert", "_op"))
    for name in [*target.key, *([target.sequence_field] if target.sequence_field else [])]:
        why = why.when(F.col(quote_name(name)).isNull(), _reason("the column must not be null", name))
    for name in target.delete_columns:
        is_missing = (op == "D") & F.col(quote_name(name)).isNull()
        why = why.when(is_missing, _reason("a delete needs the column", name))
    return why


def _detect_bad_row(target: Target, operations: Sequence[str]) -> Column:
    """One reason for all rows for which `_check_row` has a reason."""
    op = F.col("_op")
    is_bad = ~op.isin(*operations)
    for name in [*target.key, *([target.sequence_field] if target.sequence_field else [])]:
        is_bad |= F.col(quote_name(name)).isNull()
    for name in target.delete_columns:
        is_bad |= (op == "D") & F.col(quote_name(name)).isNull()
    return F.when(is_bad, _reason(_NO_CHANGE))


def _check_deletes(log: LogOut) -> Column:
    is_refused = (F.col("_op") == "D") & F.lit(log.deletes == "stop")
    return F.when(is_refused, _reason("the record is a delete, and firn.log.deletes is stop"))
