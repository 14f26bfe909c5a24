"""Rules of columns: how the values of a key's changes become one value (docs/protocols.md, rule 1.8).

A rule combines all values that a row got since its last delete, in the order of changes; null is no value. It stands
in the property `firn.column.<column>.rule`, fixed at creation, of a table with partial columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.spec import BATCH_ID, POSITION, WRITER_ID, KeySpec
from firn.protocol.partial import ColumnRule, name_rule

_ORDERED = ("int", "long", "date", "timestamp", "timestamptz")
_MOST_DIGITS = 28
"""Of decimals that are added up: ten billion of them have 38 digits, the most that engines calculate with."""


def read_rules(properties: Mapping[str, str]) -> dict[str, ColumnRule]:
    """The rule of each column that has one. Invalid for an unknown rule."""
    rules = {}
    for key, text in properties.items():
        column = name_rule(key)
        if column is None:
            continue
        if text not in tuple(ColumnRule):
            raise Invalid(f"{key}={text!r}: expected one of {', '.join(ColumnRule)}")
        rules[column] = ColumnRule(text)
    return rules


def check_rules(base: Json, spec: KeySpec, *, partial: bool) -> None:
    """Invalid if the rules of a new table do not fit its columns."""
    types = {field["name"]: field["type"] for field in current_schema(base)["fields"]}
    for column, rule in read_rules(base.get("properties") or {}).items():
        if not partial:
            raise Invalid(f"the rule of column {column!r} needs firn.partial=true", hint="set both properties")
        if column not in types:
            raise Invalid(f"no column {column!r} for a rule", hint=f"the columns are {', '.join(types)}")
        if column in spec.primary_key:
            raise Invalid(f"column {column!r} is part of the primary key and cannot have a rule")
        if not _fits(rule, types[column]):
            raise Invalid(f"column {column!r} cannot have the rule {rule}: its type is {types[column]}")


def _fits(rule: ColumnRule, kind: object) -> bool:
    if rule in (ColumnRule.FIRST, ColumnRule.LAST_NOT_NULL):
        return True
    digits = re.match(r"decimal\((\d+),", kind) if isinstance(kind, str) else None
    if rule is ColumnRule.SUM:
        return kind == "long" or (digits is not None and int(digits[1]) <= _MOST_DIGITS)
    return kind in _ORDERED or digits is not None


def check_ruled_columns(new: Json, old: Json, properties: Mapping[str, str]) -> None:
    """CommitRefused if a schema change drops, renames or widens a column with a rule, which names it."""
    by_id = {field["id"]: field for field in new["fields"]}
    rules = read_rules(properties)
    for field in old["fields"]:
        kept = by_id.get(field["id"])
        if field["name"] in rules and (kept is None or (kept["name"], kept["type"]) != (field["name"], field["type"])):
            raise CommitRefused(f"column {field['name']!r} has a rule: it cannot be dropped, renamed or widened")


def check_names_batch(properties: Mapping[str, str], summary: Mapping[str, str]) -> None:
    """CommitRefused for an append to a table with rules that the server could not recognize if it came twice."""
    if not read_rules(properties):
        return
    if WRITER_ID not in summary or not {BATCH_ID, POSITION} & summary.keys():
        raise CommitRefused(
            "a column of this table has a rule, so changes that come twice would count twice: the commit has to name "
            "its writer, and a batch or position",
            hint="write with firn.spark.upsert and firn.spark.delete",
        )


def limit_sums(kind: str) -> tuple[str, str, int]:
    """The least and the largest value of an Iceberg type that sums may have, and its digits after the point."""
    digits = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind)
    if digits is None:
        return str(-(2**63)), str(2**63 - 1), 0
    precision, scale = int(digits[1]), int(digits[2])
    nines = "9" * precision
    most = f"{nines[: precision - scale] or '0'}.{nines[precision - scale :]}" if scale else nines
    return f"-{most}", most, scale


def check_sum(kind: str, total: str) -> str:
    """Spark SQL of a sum as a value of its column's Iceberg type. The query fails for a sum that the column cannot
    hold, whatever the session's settings are.
    """
    least, most, scale = limit_sums(kind)
    spark_type = "BIGINT" if kind == "long" else kind
    first, last = (f"CAST('{limit}' AS DECIMAL(38, {scale}))" for limit in (least, most))
    failed = f"CAST(raise_error('the sum of a column is out of the range of {kind}') AS {spark_type})"
    return (
        f"CASE WHEN {total} BETWEEN {first} AND {last} THEN CAST({total} AS {spark_type})"
        f" WHEN {total} IS NOT NULL THEN {failed} END"
    )
