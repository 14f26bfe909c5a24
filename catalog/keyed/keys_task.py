"""Keys that occur more than once: what an optimizer counts in base, and which of their rows leave when it is asked to.

Nobody checks keys as rows come: a Hive table is upgraded as it is, and who appends to base gives his word. So a count
reads base as it is at one snapshot. One row of each key stays by a rule that whoever asks has chosen; a tie is broken
by where rows lie, so that two runs of the rule on one snapshot keep the same rows.

    repeated    keys that occur more than once                                  k0 … n
    places      the files in which a sample of them lies                        k0 … file, n
    files       all files in which rows of such keys lie, and their commits     file, sequence
    surplus     rows of such keys but for the one that stays                    file, pos
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
"""The views that the SQL reads: what the optimizer has made of the queries before, and when files were written."""
_UNORDERED = frozenset({"unknown", "variant", "geometry", "geography"})


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Which row of a key stays: that of the newest commit, of one commit that in the newest file, there the last one.

    With a column the row with its highest value does, and of several such rows that one.
    """

    highest: str | None = None

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self | None:
        """As a job remembers it; None for one that only counts."""
        return cls(params.get("column")) if "keep" in params else None

    def as_params(self) -> dict[str, Any]:
        """The same for a job to remember."""
        return {"keep": "last"} if self.highest is None else {"keep": "highest", "column": self.highest}


def build_keys_task(keyed: KeyedTable, name: TableName, base: Json, keep: KeepRule | None, *, linked: bool) -> KeysTask:
    """The facts for counting the keys of base as it is now; Invalid for a rule that cannot be followed.

    Of a table that is `linked` to Hive many files came by one commit, the upgrade's: their own times tell them apart.
    """
    head, spec = ref_snapshot_id(base, "main"), keyed.spec
    pinned = quote_name(JOB_CATALOG, *name.as_namespace, name_pinned_view(BASE, head, base["current-schema-id"]))
    sql = {"repeated": _repeated(spec, pinned), "places": _places(spec, pinned)}
    if keep is not None:
        store = quote_name(JOB_CATALOG, *name.as_namespace, BASE)
        highest = _highest(spec, base, keep)
        sql |= {
            "files": _files(spec, pinned, f"{store}.entries"),
            "surplus": _surplus(spec, pinned, highest),
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


def _highest(spec: KeySpec, base: Json, keep: KeepRule) -> str | None:
    """The column that decides: another one than the sequence field would let the next late change win."""
    if keep.highest is None or keep.highest == spec.sequence_field:
        return spec.sequence_field
    if spec.sequence_field is not None:
        raise Invalid(
            f"which row of a key is newer is decided by the sequence field, {spec.sequence_field}, not {keep.highest}",
            hint="leave the column out",
        )
    field = field_by_name(current_schema(base), keep.highest)
    if field is None:
        raise Invalid(f"the table has no column {keep.highest}", hint="case matters")
    if not isinstance(field["type"], str) or field["type"] in _UNORDERED:
        raise Invalid(f"{keep.highest} has no values of which one is the highest")
    return keep.highest


def _repeated(spec: KeySpec, base: str) -> str:
    listed = ", ".join(f"b.{quote_name(key)} AS k{i}" for i, key in enumerate(spec.primary_key))
    by = ", ".join(f"b.{quote_name(key)}" for key in spec.primary_key)
    return f"SELECT {listed}, count(*) AS n FROM {base} AS b GROUP BY {by} HAVING count(*) > 1"


def _places(spec: KeySpec, base: str) -> str:
    keys = ", ".join(f"r.k{i}" for i in range(len(spec.primary_key)))
    return (
        f"SELECT {keys}, b._file AS file, count(*) AS n FROM {base} AS b JOIN {SAMPLE} AS r ON {_same_key(spec)}"
        f" GROUP BY {keys}, b._file"
    )


def _files(spec: KeySpec, base: str, entries: str) -> str:
    found = f"SELECT DISTINCT b._file AS file FROM {base} AS b LEFT SEMI JOIN {REPEATED} AS r ON {_same_key(spec)}"
    return (
        f"SELECT f.file, e.sequence_number AS sequence FROM ({found}) AS f"
        f" JOIN {entries} AS e ON e.data_file.file_path = f.file WHERE e.status < 2"
    )


def _surplus(spec: KeySpec, base: str, highest: str | None) -> str:
    keys = ", ".join(f"r.k{i}" for i in range(len(spec.primary_key)))
    first = "" if highest is None else f"b.{quote_name(highest)} DESC NULLS LAST, "
    order = f"{first}w.sequence DESC, w.written DESC, b._file DESC, b._pos DESC"
    # Not its number: a row that a scan returns twice, because its file is listed twice, must not give way to itself.
    place = f"dense_rank() OVER (PARTITION BY {keys} ORDER BY {order})"
    return (
        f"SELECT file, pos FROM (SELECT b._file AS file, b._pos AS pos, {place} AS place FROM {base} AS b"
        f" JOIN {REPEATED} AS r ON {_same_key(spec)} JOIN {WRITTEN} AS w ON w.file = b._file) WHERE place > 1"
    )


def _same_key(spec: KeySpec) -> str:
    return " AND ".join(f"b.{quote_name(key)} = r.k{i}" for i, key in enumerate(spec.primary_key))
