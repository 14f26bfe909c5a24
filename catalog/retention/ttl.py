"""Time to live: the rows that are too old, and the task that deletes them.

A job deletes a row if its time column is before the cutoff: the database's clock at the lease, less the age. Rows with
null stay. In a table partitioned by the time of this column, the cutoff moves back to the start of a partition. So
whole partitions go and no file is opened (decision 31).

In a keyed table the job deletes rows from base and leaves pending changes on top, as long as no pending change
concerns an old row. Otherwise the job is a merge that leaves these rows out. Either way the view only loses the rows
that were too old, and later changes win, whenever merges run.
"""

# ruff: noqa: S608 -- the SQL is made of quoted names, and of times written here

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, field_by_name
from catalog.keyed.column_rules import read_rules
from catalog.keyed.schema import OP
from catalog.keyed.view_sql import Pair, build_effective_sql, build_merged_sql, quote_name
from catalog.names import TableName
from firn.protocol.partial import SET, read_groups
from firn.protocol.tasks.merge import MergeTask
from firn.protocol.tasks.retention import KeyedTtl, TtlTask

KINDS = ("date", "timestamp", "timestamptz")
_FIELD, _AGE = "firn.ttl.field", "firn.ttl.max-age"
_UNFIT_TYPES = {
    "string": "text has no order of times that holds for every way to write one",
    "int": "whether a number counts seconds, days or something else is not known",
    "long": "whether a number counts seconds, milliseconds or something else is not known",
    "timestamp_ns": "Spark, which deletes the rows, has no type of nanoseconds",
    "timestamptz_ns": "Spark, which deletes the rows, has no type of nanoseconds",
}
_STARTS: dict[str, Callable[[datetime], datetime]] = {
    "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "day": lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0),
    "month": lambda at: at.replace(day=1, hour=0, minute=0, second=0, microsecond=0),
    "year": lambda at: at.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0),
}
"""The start of a time's partition, by transform; finest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlPolicy:
    """The rules for the age of rows, from the table's policy."""

    field: str | None
    max_age: timedelta | None
    zone: ZoneInfo
    """The time zone of calendar dates, and of times without a zone."""
    whole_partitions: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoff:
    """The time from which on rows are young enough, as a value of their column."""

    column: str
    field_id: int
    kind: str
    at: datetime
    """In UTC for a column with a zone, else in local time of the policy's zone, as the column's values are."""
    whole: bool = False
    """Whether every partition lies on one side of it."""

    def condition(self, alias: str = "") -> str:
        """SQL that is true for rows that are too old, and false for all others.

        It excludes null explicitly. Iceberg orders null before every value, so a delete by comparison alone would also
        delete the partition of null.
        """
        column = (f"{alias}." if alias else "") + quote_name(self.column)
        return f"({column} IS NOT NULL AND {column} < {self._literal})"

    @property
    def _literal(self) -> str:
        if self.kind == "date":
            return f"DATE '{self.at:%Y-%m-%d}'"
        kind, zone = ("TIMESTAMP", "+00:00") if self.kind == "timestamptz" else ("TIMESTAMP_NTZ", "")
        return f"{kind} '{self.at.isoformat(sep=' ', timespec='microseconds').removesuffix('+00:00')}{zone}'"

    @property
    def value(self) -> int:
        """The cutoff in the unit of partition records and bounds: days, or microseconds, since 1970."""
        if self.kind == "date":
            return (self.at.date() - date(1970, 1, 1)).days
        return (self.at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def compute_ttl_cutoff(metadata: Json, policy: TtlPolicy, now: datetime) -> Cutoff:
    """The cutoff for old rows; Invalid, with the reason, if the policy does not fit the table."""
    if policy.field is None or policy.max_age is None:
        missing = _FIELD if policy.field is None else _AGE
        raise Invalid(f"no row is too old: {missing} is not set", hint=f"set {_FIELD} and {_AGE}")
    field = field_by_name(current_schema(metadata), policy.field)
    if field is None:
        raise Invalid(f"{_FIELD}={policy.field}: the table has no column of that name", hint="case matters")
    if field["name"] in read_rules(metadata.get("properties") or {}):
        raise Invalid(f"{_FIELD}={policy.field}: the column has a rule, so a change does not say how old a row is")
    if field["name"] in read_groups(metadata.get("properties") or {}):
        raise Invalid(
            f"{_FIELD}={policy.field}: the column is in a sequence group, so a change does not say how old a row is"
        )
    kind = field["type"]
    if kind not in KINDS:
        shown = kind if isinstance(kind, str) else kind["type"]
        reason = _UNFIT_TYPES.get(shown, "that is no time")
        raise Invalid(
            f"{_FIELD}={policy.field}: its type is {shown}, and {reason}", hint=f"name a column of {', '.join(KINDS)}"
        )
    at = now.astimezone(UTC) - policy.max_age
    if kind != "timestamptz":
        at = at.astimezone(policy.zone).replace(tzinfo=None)
    if kind == "date":
        at = _STARTS["day"](at)
    exact = Cutoff(column=field["name"], field_id=field["id"], kind=kind, at=at)
    return _align_to_partition(exact, metadata, whole_partitions=policy.whole_partitions)


def _align_to_partition(cutoff: Cutoff, metadata: Json, *, whole_partitions: bool) -> Cutoff:
    spec = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    transforms = {field["transform"] for field in spec["fields"] if field["source-id"] == cutoff.field_id}
    if "identity" in transforms:
        return replace(cutoff, whole=True)
    finest = next((transform for transform in _STARTS if transform in transforms), None)
    if finest is None:
        return cutoff
    start = _STARTS[finest](cutoff.at)
    return replace(cutoff, at=start, whole=True) if whole_partitions or start == cutoff.at else cutoff


def check_takes_ttl(name: TableName, *, hive_linked: bool) -> None:
    """CommitRefused for a table linked to Hive."""
    if hive_linked:
        raise CommitRefused(
            f"{name} is linked to Hive, which would keep listing the files, so the next sync would restore the rows",
            hint="drop Hive's old partitions; the next sync removes them here",
        )


def build_ttl_task(parts: list[str], cutoff: Cutoff) -> TtlTask:
    """The task for a plain table; build_keyed_facts adds those of a keyed one."""
    return TtlTask(
        parts=parts,
        condition=cutoff.condition(),
        cutoff=cutoff.at.isoformat(),
        whole_partitions=cutoff.whole,
        keyed=None,
    )


def build_keyed_facts(pair: Pair, cutoff: Cutoff, merge: MergeTask) -> KeyedTtl:
    """The additional facts of a keyed table's job: a merge of all pending changes, and SQL over both stores."""
    return KeyedTtl(
        merge=merge,
        concerned=_select_concerned(pair, cutoff) if pair.pending else None,
        leaving=_select_leaving(pair, cutoff) if pair.pending else None,
        staying=f"SELECT * FROM ({build_merged_sql(pair)}) AS m WHERE NOT {cutoff.condition('m')}",
    )


def _select_concerned(pair: Pair, cutoff: Cutoff) -> str:
    """Pending changes that are too old themselves, or concern a row of base that is."""
    same = " AND ".join(f"b.{quote_name(key)} = c.{quote_name(key)}" for key in pair.spec.primary_key)
    pending = f"FROM {pair.change} AS c WHERE c._last_updated_sequence_number > {pair.watermark}"
    old_rows = f"SELECT 1 FROM {pair.base} AS b WHERE {cutoff.condition('b')} AND {same}"
    return (
        f"SELECT 1 {pending} AND c.{OP} <> 'D' AND {cutoff.condition('c')}\n"
        f"UNION ALL\nSELECT 1 {pending} AND EXISTS ({old_rows})"
    )


def _select_leaving(pair: Pair, cutoff: Cutoff) -> str:
    """The source of a MERGE: the changes that take effect, with deletes for rows that are too old after them."""
    if pair.folding is not None:
        return _select_leaving_partial(pair, cutoff)
    columns = ", ".join(quote_name(name) for name in pair.columns)
    same = " AND ".join(f"b.{quote_name(key)} = e.{quote_name(key)}" for key in pair.spec.primary_key)
    old = f"CASE WHEN {cutoff.condition('e')} THEN 'D' ELSE e.{OP} END"
    of_base = ", ".join(f"b.{quote_name(name)}" for name in pair.columns)
    return (
        f"WITH firn_takes_effect AS ({build_effective_sql(pair)})\n"
        f"SELECT {columns}, {old} AS {OP} FROM firn_takes_effect AS e\n"
        f"UNION ALL\n"
        f"SELECT {of_base}, 'D' AS {OP} FROM {pair.base} AS b LEFT ANTI JOIN firn_takes_effect AS e ON {same}"
        f" WHERE {cutoff.condition('b')}"
    )


def _select_leaving_partial(pair: Pair, cutoff: Cutoff) -> str:
    """As above, for changes that set some columns only: the time of a row may be the one that base has.

    `h` has the newest time of each key, because rows that somebody appended to base may share a key.
    """
    keys = [quote_name(key) for key in pair.spec.primary_key]
    column, number = quote_name(cutoff.column), list(pair.columns).index(cutoff.column)
    columns = ", ".join(f"e.{quote_name(name)}" for name in pair.columns)
    old = f"CASE WHEN e.{SET}[{number}] THEN {cutoff.condition('e')} ELSE {cutoff.condition('h')} END"
    held = f"SELECT {', '.join(keys)}, max({column}) AS {column} FROM {pair.base} GROUP BY {', '.join(keys)}"
    if column in keys:  # then it is the same in every change
        old, held = cutoff.condition("e"), f"SELECT DISTINCT {', '.join(keys)} FROM {pair.base}"
    of_base = ", ".join(f"b.{quote_name(name)}" for name in pair.columns)
    same = " AND ".join(f"h.{key} = e.{key}" for key in keys)
    return (
        f"WITH firn_takes_effect AS ({build_effective_sql(pair)})\n"
        f"SELECT {columns}, CASE WHEN {old} THEN 'D' ELSE e.{OP} END AS {OP}, e.{SET}"
        f" FROM firn_takes_effect AS e LEFT JOIN ({held}) AS h ON {same}\n"
        f"UNION ALL\n"
        f"SELECT {of_base}, 'D' AS {OP}, array_repeat(true, {len(pair.columns)}) AS {SET} FROM {pair.base} AS b"
        f" LEFT ANTI JOIN firn_takes_effect AS e ON {' AND '.join(f'b.{key} = e.{key}' for key in keys)}"
        f" WHERE {cutoff.condition('b')}"
    )
