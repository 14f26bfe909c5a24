"""Columns that changed in Hive since the last sync, brought into the Iceberg schema.

Three sides are compared: the columns as last synced, as Hive has them now, and the Iceberg schema, which may have
changed on its own.  Hive knows columns by name only: a renamed column is one that went and one that came.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from catalog.errors import Conflict
from catalog.hive.model import HiveColumn
from catalog.hive.types import HiveType, ListOf, MapOf, Named, StructOf, iceberg_field, iceberg_type, parse_type
from catalog.iceberg.json import Json


class SchemaConflict(Conflict):
    """A change in Hive that Iceberg cannot follow: files written before it and after it do not fit one column."""


@dataclass(slots=True)
class SchemaDrift:
    """The schema after Hive's changes; `changes` says them in words and is empty when there are none."""

    schema: Json
    last_column_id: int
    aliases: Sequence[tuple[int, str]] = ()
    """The names that Hive's files have for columns, by field id: one that was renamed here keeps its old one there."""
    changes: list[str] = field(default_factory=list)

    def next_id(self) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def names_of(self, field_id: int) -> set[str]:
        """What Hive's files call a column, in lower case as Hive compares."""
        return {name.lower() for one, name in self.aliases if one == field_id}


def schema_changes(
    synced: Sequence[HiveColumn],
    now: Sequence[HiveColumn],
    schema: Json,
    last_column_id: int,
    aliases: Sequence[tuple[int, str]] = (),
) -> SchemaDrift:
    """Bring what changed from `synced` to `now` into `schema`; partition columns belong to neither list.

    `aliases` are the names of the table's name mapping.

    SchemaConflict when a column's type changed in a way that Iceberg cannot read, or when Firn's side has made another
    column of the same name meanwhile.
    """
    drift = SchemaDrift(deepcopy(schema), last_column_id, aliases)
    before = {column.name.lower(): column for column in synced}
    after = {column.name.lower(): column for column in now}
    for name in sorted(before.keys() - after.keys()):
        _drop(drift, name)
    for name, column in after.items():
        if name in before:
            _change(drift, before[name], column)
        else:
            _add(drift, column, before.keys(), after.keys())
    return drift


def _add(drift: SchemaDrift, column: HiveColumn, before: Collection[str], after: Collection[str]) -> None:
    """Put a new column behind the last one that Hive's files hold, before the partition columns."""
    fields: list[Json] = drift.schema["fields"]
    there = _field(drift, column.name)
    if there is not None:
        if of_another := (drift.names_of(there["id"]) & set(before)) - {column.name.lower()}:
            raise SchemaConflict(
                f"Hive has a new column {column.name!r}; the table's is what Hive calls {min(of_another)!r}",
                hint="Rename one of them.",
            )
        wanted = iceberg_type(parse_type(column.type), lambda: 0)
        if _without_ids(there["type"]) != _without_ids(wanted):
            raise SchemaConflict(
                f"Hive has a new column {column.name!r} of type {column.type}, the table's is a {there['type']}",
                hint="Rename one of them.",
            )
        return
    at = max((i for i, one in enumerate(fields) if one["name"].lower() in {*before, *after}), default=-1) + 1
    fields.insert(at, iceberg_field(column, drift.next_id(), drift.next_id))
    drift.changes.append(f"added column {column.name} {column.type}")


def _drop(drift: SchemaDrift, name: str) -> None:
    there = _field(drift, name)
    if there is None:
        return
    if there["id"] in drift.schema.get("identifier-field-ids", ()) or there["required"]:
        raise SchemaConflict(
            f"Hive has dropped column {name!r}, which the table's key needs",
            hint="Add the column again in Hive (ALTER TABLE … ADD COLUMNS); its rows are still in the files.",
        )
    drift.schema["fields"].remove(there)
    drift.changes.append(f"dropped column {name}")


def _change(drift: SchemaDrift, before: HiveColumn, after: HiveColumn) -> None:
    there = _field(drift, after.name) or _renamed(drift, after.name)
    if there is None:
        return  # dropped on our side
    if before.type != after.type:
        there["type"] = _widened(drift, after.name, there["type"], parse_type(before.type), parse_type(after.type))
    if (before.comment or "") != (after.comment or ""):
        there.pop("doc", None)
        if after.comment:
            there["doc"] = after.comment
        drift.changes.append(f"changed the comment of column {after.name}")


def _widened(drift: SchemaDrift, where: str, ours: Any, before: HiveType, after: HiveType) -> Any:
    """Our type after Hive's change from `before` to `after`."""
    if before == after:
        return ours
    match before, after:
        case StructOf(), StructOf():
            return _struct(drift, where, ours, before, after)
        case ListOf(old), ListOf(new):
            return ours | {"element": _widened(drift, f"{where}.element", ours["element"], old, new)}
        case MapOf(old_key, old), MapOf(new_key, new) if old_key == new_key:
            return ours | {"value": _widened(drift, f"{where}.value", ours["value"], old, new)}
        case Named(), Named():
            old_type, new_type = (str(iceberg_type(kind, drift.next_id)) for kind in (before, after))
            if new_type in (old_type, ours):
                return ours
            if _may_become(old_type, new_type):
                if _may_become(new_type, str(ours)):
                    return ours  # we have made it wider still
                if ours == old_type:
                    drift.changes.append(f"widened column {where} from {old_type} to {new_type}")
                    return new_type
    raise SchemaConflict(
        f"column {where!r} changed in Hive from {_said(before)} to {_said(after)}, which Iceberg cannot follow",
        hint="Change it back in Hive, or copy the rows into a column of another name.",
    )


def _struct(drift: SchemaDrift, where: str, ours: Json, before: StructOf, after: StructOf) -> Json:
    old, new = ({name.lower(): kind for name, kind in one.fields} for one in (before, after))
    fields: list[Json] = []
    for one in ours["fields"]:
        name = one["name"].lower()
        if name in old and name not in new:
            drift.changes.append(f"dropped column {where}.{one['name']}")
        elif name in old:
            fields.append(one | {"type": _widened(drift, f"{where}.{name}", one["type"], old[name], new[name])})
        else:
            fields.append(one)
    there = {one["name"].lower() for one in fields}
    for name, kind in after.fields:
        if name.lower() not in old and name.lower() not in there:
            field_id = drift.next_id()
            kind_json = iceberg_type(kind, drift.next_id)
            fields.append({"id": field_id, "name": name, "required": False, "type": kind_json})
            drift.changes.append(f"added column {where}.{name}")
    return ours | {"fields": fields}


def _may_become(old: str, new: str) -> bool:
    """Iceberg's type promotions."""
    if (old, new) in (("int", "long"), ("float", "double")):
        return True
    if old.startswith("decimal") and new.startswith("decimal"):
        (old_precision, old_scale), (new_precision, new_scale) = map(_decimal, (old, new))
        return old_scale == new_scale and old_precision <= new_precision
    return False


def _decimal(text: str) -> tuple[int, int]:
    precision, scale = text[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _field(drift: SchemaDrift, name: str) -> Json | None:
    return next((one for one in drift.schema["fields"] if one["name"].lower() == name.lower()), None)


def _renamed(drift: SchemaDrift, name: str) -> Json | None:
    """The column that our side calls otherwise."""
    return next((one for one in drift.schema["fields"] if name.lower() in drift.names_of(one["id"])), None)


def _without_ids(kind: Any) -> Any:
    """A type with nothing but its shape, for comparing."""
    if isinstance(kind, dict):
        return {key: _without_ids(value) for key, value in kind.items() if key != "id" and not key.endswith("-id")}
    return [_without_ids(one) for one in kind] if isinstance(kind, list) else kind


def _said(kind: HiveType) -> str:
    if isinstance(kind, Named):
        return f"{kind.name}({','.join(map(str, kind.numbers))})" if kind.numbers else kind.name
    return type(kind).__name__.removesuffix("Of").lower()
