"""Types of one column or field, compared three ways: what Hive changed, what this side changed, and what fits both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from catalog.hive.columns import FileCheck, SchemaDifference, SchemaDrift, SchemaSides
from catalog.hive.schema_diff import (
    STRING,
    NodeTypes,
    SchemaLevel,
    SchemaNode,
    explain_unfollowable,
    format_type,
    is_promotion,
    list_struct_fields,
    strip_ids,
    to_struct,
)
from catalog.hive.types import (
    HiveType,
    ListOf,
    MapOf,
    Named,
    StructOf,
    UnsupportedType,
    format_hive_type,
    hive_type,
    iceberg_type,
)
from catalog.iceberg.json import Json


@dataclass(frozen=True, slots=True)
class TypeComparer(ABC):
    """Compares types and adds what it finds to `drift`. A subclass compares the fields of structs."""

    sides: SchemaSides
    drift: SchemaDrift

    @abstractmethod
    def compare_level(
        self,
        path: str,
        baseline: Mapping[str, SchemaNode],
        hive: Mapping[str, SchemaNode],
        fields: Sequence[Json],
        *,
        fixed: Collection[int] = (),
    ) -> SchemaLevel:
        """Compare the columns of a table, or the fields of a struct at `path`."""

    def compare_type(self, where: str, old: HiveType, new: HiveType, ours: Any) -> NodeTypes:
        """Compare a type that changed in Hive from `old` to `new`, and in the table from `old` to `ours`."""
        kind = ours if isinstance(ours, str) else ours["type"]
        match old, new, kind:
            case StructOf(), StructOf(), "struct":
                level = self.compare_level(
                    f"{where}.", list_struct_fields(old), list_struct_fields(new), ours["fields"]
                )
                pushed = [node for _, node in level.pushes if node is not None]
                read = [level.read[element["id"]] for element in level.ours]
                kinds = to_struct(level.baseline), to_struct(pushed), to_struct(read)
                return NodeTypes(ours | {"fields": level.ours}, *kinds)
            case ListOf(element), ListOf(new_element), "list":
                inner = self.compare_type(f"{where}.element", element, new_element, ours["element"])
                return NodeTypes(ours | {"element": inner.ours}, *map(ListOf, inner[1:]))
            case MapOf(key, element), MapOf(new_key, new_element), "map" if key == new_key:
                inner = self.compare_type(f"{where}.value", element, new_element, ours["value"])
                return NodeTypes(ours | {"value": inner.ours}, *(MapOf(key, kind) for kind in inner[1:]))
            case Named(), Named(), _ if isinstance(ours, str):
                return self._compare_named(where, old, new, ours)
            case _:
                return self._reject_type(where, old, new, ours)

    def _compare_named(self, where: str, old: Named, new: Named, ours: str) -> NodeTypes:
        try:
            before, after = (str(iceberg_type(kind, lambda: 0)) for kind in (old, new))
        except UnsupportedType:
            return self._reject_type(where, old, new, ours)
        if after == ours:
            return NodeTypes(ours, new, new, new)
        is_wider = before == after or is_promotion(before, after)
        if is_wider and is_promotion(after, ours):
            self.report_difference(
                where, f"column {where!r} is {format_type(ours)} here, {format_hive_type(new)} in Hive"
            )
            return NodeTypes(ours, new, hive_type(ours) or new, new)
        if before != after and is_promotion(ours, after):
            self.drift.changes.append(f"widened column {where} from {ours} to {after}")
            return NodeTypes(after, new, new, new)
        return self._reject_type(where, old, new, ours)

    def _reject_type(self, where: str, old: HiveType, new: HiveType, ours: Any) -> NodeTypes:
        if strip_ids(old) == strip_ids(new):
            kinds = f"{format_type(ours)} here, {format_hive_type(new)} in Hive"
            message = f"column {where!r} is {kinds}, whose files do not fit it"
        else:
            message = explain_unfollowable(where, format_hive_type(old), format_hive_type(new))
        self.report_conflict(where, message)
        return NodeTypes(ours, old, new, hive_type(ours) or old)

    def find_read_type(self, where: str, node: SchemaNode, field: Json) -> HiveType:
        """Find the type in which files that were written as `node` hold the values of the table's field."""
        if node.kind is None:
            return hive_type(field["type"]) or STRING
        return self.start_trial().compare_type(where, node.kind, node.kind, field["type"]).read

    def start_trial(self) -> Self:
        """A comparer with an empty drift. Its results count only after `accept`."""
        blank = SchemaDrift(
            schema=self.drift.schema,
            last_column_id=self.drift.last_column_id,
            aliases=list(self.drift.aliases),
            former=dict(self.drift.former),
        )
        return type(self)(self.sides, blank)

    def accept(self, trial: TypeComparer) -> None:
        """Add the results of a trial."""
        tried, drift = trial.drift, self.drift
        drift.last_column_id, drift.aliases, drift.former = tried.last_column_id, tried.aliases, tried.former
        drift.changes += tried.changes
        drift.differences += tried.differences
        drift.revived += tried.revived

    def report_conflict(self, where: str, message: str, check: FileCheck | None = None) -> None:
        """Add a difference that a user has to decide."""
        self.drift.differences.append(SchemaDifference(column=where, what=message, is_conflict=True, check=check))

    def report_difference(
        self, where: str, message: str, check: FileCheck | None = None, *, is_only_here: bool = False
    ) -> None:
        """Add a difference that Firn may push to Hive, or that stays."""
        self.drift.differences.append(
            SchemaDifference(column=where, what=message, check=check, is_only_here=is_only_here)
        )
