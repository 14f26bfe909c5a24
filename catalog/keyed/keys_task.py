"""Repeated keys: the SQL that counts them in base and, on request, deletes all of their rows but one.

Nobody checks keys as rows arrive: an upgrade takes a Hive table as it is, and writers who append to base vouch for
their keys. So a count reads base at one snapshot. The request chooses the rule for the row that stays. The position of
rows breaks ties, so two runs on one snapshot keep the same rows.

repeated: keys that occur more than once, as k0 … n.

places: the files that hold a sample of them, as k0 … file, n.

files: all files with rows of such keys, and their commits, as file, sequence.

surplus: rows of such keys except the one that stays, as file, pos.
"""

# ruff: noqa: S608 -- the SQL is made of quoted names only

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, field_by_name, ref_snapshot_id
from catalog.keyed.merge_task import JOB_CATALOG
from catalog.keyed.spec import BASE, KeyedTable, KeySpec
from catalog.keyed.view_sql import name_pinned_view, quote_name
from catalog.names import TableName
from firn.protocol.tasks.keys import KeysTask

REPEATED, SAMPLE, WRITTEN, SURPLUS = "firn_repeated", "firn_sample", "firn_written", "firn_surplus"
"""The views that the SQL reads: the results of earlier queries, and the times when files were written."""
_UNORDERED = frozenset({"unknown", "variant", "geometry", "geography"})


@dataclass(frozen=True, slots=True)
class KeepRule:
    """The row of a key that stays: that of the newest commit; within a commit that of the newest file, and there the
    last one.

    With a column, the row with its highest value stays; among equal values the rule above decides.
    """

    highest: str | None = None

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self | None:
        """The rule of a job's parameters; None for a job that only counts."""
        return cls(params.get("column")) if "keep" in params else None

    def as_params(self) -> dict[str, Any]:
        """The rule as a job's parameters."""
        return {"keep": "last"} if self.highest is None else {"keep": "highest", "column": self.highest}


def build_keys_task(keyed: KeyedTable, name: TableName, base: Json, keep: KeepRule | None, *, linked: bool) -> KeysTask:
    """The task that counts the keys of base as it is now; Invalid for a rule that the columns do not allow.

    In a table `linked` to Hive, the upgrade's one commit brought many files. Their modification times order them.
    """
    head, spec = ref_snapshot_id(base, "main"), keyed.spec
    pinned = quote_name(JOB_CATALOG, *name.as_namespace, name_pinned_view(BASE, head, base["current-schema-id"]))
    sql = {"repeated": _build_repeated_sql(spec, pinned), "places": _build_places_sql(spec, pinned)}
    if keep is not None:
        store = quote_name(JOB_CATALOG, *name.as_namespace, BASE)
        highest = _choose_deciding_column(spec, base, keep)
        sql |= {
            "files": _build_files_sql(spec, pinned, f"{store}.entries"),
            "surplus": _build_surplus_sql(spec, pinned, highest),
            "resolve": f"MERGE INTO {store} AS t USING {SURPLUS} AS s ON t._file = s.file AND t._pos = s.pos"
            " WHEN MATCHED THEN DELETE",
        }
    return KeysTask(
        base=[*name.as_namespace, BASE],
        snapshot_id=head,
        primary_key=list(spec.primary_key),
        resolves=keep is not None,
        by_time=linked,
        sql=sql,
    )


def _choose_deciding_column(spec: KeySpec, base: Json, keep: KeepRule) -> str | None:
    """The column that decides. A column other than the sequence field would let the next late change win."""
    if keep.highest is None or keep.highest == spec.sequence_field:
        return spec.sequence_field
    if spec.sequence_field is not None:
        raise Invalid(
            f"the sequence field decides which row of a key is newer: {spec.sequence_field}, not {keep.highest}",
            hint="leave the column out",
        )
    field = field_by_name(current_schema(base), keep.highest)
    if field is None:
        raise Invalid(f"the table has no column {keep.highest}", hint="case matters")
    if not isinstance(field["type"], str) or field["type"] in _UNORDERED:
        raise Invalid(f"{keep.highest} has no values of which one is the highest")
    return keep.highest


def _build_repeated_sql(spec: KeySpec, base: str) -> str:
    key_columns = ", ".join(f"b.{quote_name(key)} AS k{i}" for i, key in enumerate(spec.primary_key))
    by = ", ".join(f"b.{quote_name(key)}" for key in spec.primary_key)
    return f"SELECT {key_columns}, count(*) AS n FROM {base} AS b GROUP BY {by} HAVING count(*) > 1"


def _build_places_sql(spec: KeySpec, base: str) -> str:
    keys = ", ".join(f"r.k{i}" for i in range(len(spec.primary_key)))
    return (
        f"SELECT {keys}, b._file AS file, count(*) AS n FROM {base} AS b JOIN {SAMPLE} AS r ON {_match_keys(spec)}"
        f" GROUP BY {keys}, b._file"
    )


def _build_files_sql(spec: KeySpec, base: str, entries: str) -> str:
    files = f"SELECT DISTINCT b._file AS file FROM {base} AS b LEFT SEMI JOIN {REPEATED} AS r ON {_match_keys(spec)}"
    return (
        f"SELECT f.file, e.sequence_number AS sequence FROM ({files}) AS f"
        f" JOIN {entries} AS e ON e.data_file.file_path = f.file WHERE e.status < 2"
    )


def _build_surplus_sql(spec: KeySpec, base: str, highest: str | None) -> str:
    keys = ", ".join(f"r.k{i}" for i in range(len(spec.primary_key)))
    first = "" if highest is None else f"b.{quote_name(highest)} DESC NULLS LAST, "
    order = f"{first}w.sequence DESC, w.written DESC, b._file DESC, b._pos DESC"
    # The rank, not the row number: a scan returns a row twice if its file is listed twice, and such a row must not
    # replace itself.
    place = f"dense_rank() OVER (PARTITION BY {keys} ORDER BY {order})"
    return (
        f"SELECT file, pos FROM (SELECT b._file AS file, b._pos AS pos, {place} AS place FROM {base} AS b"
        f" JOIN {REPEATED} AS r ON {_match_keys(spec)} JOIN {WRITTEN} AS w ON w.file = b._file) WHERE place > 1"
    )


def _match_keys(spec: KeySpec) -> str:
    return " AND ".join(f"b.{quote_name(key)} = r.k{i}" for i, key in enumerate(spec.primary_key))
