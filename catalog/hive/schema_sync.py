"""Three-way comparison of columns: the last common state, Hive's columns now, and the table's columns now.

The rules apply to each column, and to each part of it. A sync takes a change that only Hive made. A publish may push a
change that only the table's users made. A change that both sides made differently is a conflict, which a policy or a
user decides. Hive knows columns only by name: a renamed column of Hive is a dropped column and a new one. A column that
was renamed in the table keeps its name in Hive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

from catalog.hive.columns import (
    ColumnFileRule,
    FileCheck,
    SchemaAuthority,
    SchemaDrift,
    SchemaPush,
    SchemaSides,
)
from catalog.hive.schema_diff import (
    LONGEST_COMMENT,
    STRING,
    SchemaLevel,
    SchemaNode,
    describe_field,
    describe_node,
    explain_unfollowable,
    find_former_type,
    format_type,
    list_additions,
    list_columns,
    make_node,
    match_fields,
    remember_aliases,
    strip_ids,
    to_column,
    to_hive_node,
    with_both_sides,
)
from catalog.hive.type_comparison import TypeComparer
from catalog.hive.types import (
    HiveType,
    hive_type,
    iceberg_type,
)
from catalog.iceberg.json import Json


def compare_schemas(sides: SchemaSides) -> SchemaDrift:
    """Compare the columns: the changes to take from Hive, the columns to push to Hive, and the conflicts."""
    drift = SchemaDrift(
        schema=deepcopy(sides.schema),
        last_column_id=sides.last_column_id,
        aliases=list(sides.aliases),
        former=deepcopy(dict(sides.former)),
    )
    partition_columns = {name.lower() for name in sides.partition_columns}
    fields: list[Json] = drift.schema["fields"]
    names_by_id = [*((field["id"], field["name"]) for field in fields), *sides.aliases]
    fixed = {field_id for field_id, name in names_by_id if name.lower() in partition_columns}
    level = _Comparer(sides, drift).compare_level(
        "", list_columns(sides.baseline), list_columns(sides.hive), fields, fixed=fixed
    )
    drift.schema["fields"] = level.ours
    drift.baseline = tuple(map(to_column, level.baseline))
    own = [
        field["id"] for field in level.ours if field["id"] not in level.linked.values() and field["id"] in level.read
    ]
    drift.differences = [with_both_sides(difference, sides.hive, level) for difference in drift.differences]
    drift.readable = tuple(to_column(level.read[field_id]) for field_id in (*level.linked.values(), *own))
    drift.pushed = {
        SchemaPush.NONE: tuple(sides.hive),
        SchemaPush.ADDITIONS: tuple(map(to_column, list_additions(level.pushes))),
        SchemaPush.ALL: tuple(to_column(node) for _, node in level.pushes if node is not None),
    }
    return drift


class _Comparer(TypeComparer):
    """Compares the columns of a table, and the fields of its structs."""

    def compare_level(
        self,
        path: str,
        baseline: Mapping[str, SchemaNode],
        hive: Mapping[str, SchemaNode],
        fields: Sequence[Json],
        *,
        fixed: Collection[int] = (),
    ) -> SchemaLevel:
        """Compare columns by Hive's names; the fields with the ids `fixed` are Hive's partition columns."""
        result = SchemaLevel(list(fields))
        links, used = match_fields(
            baseline, hive, [field for field in fields if field["id"] not in fixed], self.drift.aliases
        )
        for name in dict.fromkeys([*hive, *baseline]):
            before, column, field = baseline.get(name), hive.get(name), links.get(name)
            if column is not None and before is None and name in used:
                self._report_collision(result, path, column, used[name])
            elif column is None and before is not None:
                self._drop_column(result, path, before, field)
            elif column is not None and field is not None:
                self._merge_column(result, path, before, column, field)
            elif column is not None and before is not None:
                self._keep_dropped(result, path, before, column)
            elif column is not None:
                self._add_column(result, path, column)
        linked_ids = {field["id"] for field in links.values()} | set(result.linked.values()) | set(fixed)
        for field in fields:
            if field["id"] not in linked_ids:
                self._keep_own(result, path, field, hive)
        self._merge_order(result, path, list(baseline), hive)
        return result

    def _report_collision(self, level: SchemaLevel, path: str, column: SchemaNode, other_name: str) -> None:
        """Report a new column of Hive under a name that files already have for another column."""
        where = f"{path}{column.name.lower()}"
        probe = {"id": 1, "name": where.partition(".")[0], "required": False, "type": "string"}
        self.report_conflict(
            where,
            f"Hive has a new column {where!r}; the table's is what Hive calls {path + other_name!r}: "
            "rename one of them",
            FileCheck(rule=ColumnFileRule.LACKS, field=probe),
        )
        level.pushes.append((column, column))

    def _add_column(self, level: SchemaLevel, path: str, column: SchemaNode, former: Json | None = None) -> None:
        """Add a column that only Hive has. A former column of the table comes back with its old values."""
        where = f"{path}{column.name.lower()}"
        former = self.drift.former.get(where, former)
        level.pushes.append((column, column))
        if column.kind is None:
            self.report_conflict(
                where, f"Hive has a new column {where!r} of type {column.text}, which Iceberg does not have"
            )
            return
        if former is not None:
            self._revive_column(level, where, column, column.kind, former)
            return
        field_id = self.drift.next_id()
        added = {
            "id": field_id,
            "name": column.name,
            "required": False,
            "type": iceberg_type(column.kind, self.drift.next_id),
        }
        level.put(added | ({"doc": column.comment} if column.comment else {}))
        level.link(column.name.lower(), field_id, column)
        level.baseline.append(column)
        self.drift.changes.append(f"added column {path}{column.name} {column.text}")

    def _revive_column(
        self, level: SchemaLevel, where: str, column: SchemaNode, kind_now: HiveType, former: Json
    ) -> None:
        """Restore the former field under its old id, because Hive's readers see the values of old files again."""
        field_before: Json = former["field"]
        kind, trial = hive_type(field_before["type"]), self.start_trial()
        merged = None if kind is None else trial.compare_type(where, kind, kind_now, field_before["type"])
        is_named = any(field["name"].lower() == field_before["name"].lower() for field in level.ours)
        if merged is None or trial.drift.conflicts or is_named:
            problem = "its name is taken here" if is_named else f"files hold it as {format_type(field_before['type'])}"
            message = f"Hive has column {where!r} again, as {column.text}; {problem}: give it another name in Hive"
            self.report_conflict(where, message)
            return
        revived = {key: value for key, value in field_before.items() if key != "doc"}
        level.put(revived | {"type": merged.ours} | ({"doc": column.comment} if column.comment else {}))
        self.accept(trial)
        self.drift.aliases += [(field_id, name) for field_id, name in former["names"]]
        self.drift.aliases.append((revived["id"], column.name))
        self.drift.former.pop(where, None)
        self.drift.revived.append(where)
        level.link(column.name.lower(), revived["id"], make_node(column.name, merged.read))
        level.baseline.append(column)
        self.drift.changes.append(f"took column {where} back")

    def _drop_column(self, level: SchemaLevel, path: str, before: SchemaNode, field: Json | None) -> None:
        """Drop a column that Hive dropped, unless the key needs it or the table's users changed it."""
        where = f"{path}{before.name.lower()}"
        if field is None:
            former = self._find_former(path, before.name)
            if former is not None:
                self.drift.former[where] = former
            return
        decides, kept = self.sides.decides, True
        if not path and self.sides.is_needed(field):
            check = FileCheck(rule=ColumnFileRule.HOLDS, field=field | {"name": before.name})
            message = f"Hive has dropped column {where!r}, which the table's key needs: add it again in Hive"
            if decides is SchemaAuthority.FIRN:
                self.report_difference(where, message, check)
            else:
                self.report_conflict(
                    where, f"{message} (ALTER TABLE … ADD COLUMNS), its values are still in the files", check
                )
        elif decides is SchemaAuthority.HIVE or not self._is_changed(where, before, field):
            level.ours.remove(field)
            self.drift.former[where] = remember_aliases(field, self.drift.aliases)
            self.drift.changes.append(f"dropped column {where}")
            kept = False
        elif decides is SchemaAuthority.FIRN:
            self.report_difference(
                where, f"Hive has dropped column {where!r}, which was changed here", is_only_here=True
            )
        else:
            self.report_conflict(
                where, f"Hive has dropped column {where!r}, which was changed here since: {describe_field(field)}"
            )
        if kept:
            level.baseline.append(before)
            level.linked[before.name.lower()] = field["id"]
            level.read[field["id"]] = make_node(before.name, self.find_read_type(where, before, field))
            if decides is SchemaAuthority.FIRN:
                level.pushes.append((None, to_hive_node(field, before.name)))

    def _keep_dropped(self, level: SchemaLevel, path: str, before: SchemaNode, column: SchemaNode) -> None:
        """Handle a column that the table's users dropped and Hive still has."""
        where, decides = f"{path}{column.name.lower()}", self.sides.decides
        is_unchanged = strip_ids(before.kind) == strip_ids(column.kind) and before.comment == column.comment
        if not is_unchanged and decides is SchemaAuthority.HIVE:
            self._add_column(level, path, column, self._find_former(path, column.name))
            return
        if is_unchanged or decides is SchemaAuthority.FIRN:
            self.report_difference(where, f"column {where!r} was dropped here, Hive has it")
            level.baseline.append(column)
            level.pushes.append((column, None))
            return
        self.report_conflict(
            where, f"column {where!r} was dropped here; Hive has changed it since, it is {describe_node(column)} there"
        )
        level.baseline.append(before)
        level.pushes.append((column, column))

    def _merge_column(
        self, level: SchemaLevel, path: str, before: SchemaNode | None, column: SchemaNode, field: Json
    ) -> None:
        """Merge the changes of a column that both sides have."""
        where = f"{path}{column.name.lower()}"
        trial = self.start_trial()
        old = column.kind if before is None else before.kind
        merged = None
        if column.kind is not None and old is not None:
            merged = trial.compare_type(where, old, column.kind, field["type"])
        if merged is None or (before is None and trial.drift.conflicts):
            self._report_misfit(level, where, before, column, field)
            return
        start = len(self.drift.differences)
        self.accept(trial)
        check = FileCheck(rule=ColumnFileRule.FITS, field=field | {"name": column.name})
        if not path:
            self.drift.differences[start:] = [
                replace(difference, check=difference.check or check) if difference.is_conflict else difference
                for difference in self.drift.differences[start:]
            ]
        comment, baseline_comment, pushed_comment = (
            self._merge_comment(where, "" if before is None else before.comment, column.comment, field)
            if not path
            else ("",) * 3
        )
        updated = {key: value for key, value in field.items() if key != "doc" or path} | {"type": merged.ours}
        level.replace(field, updated | ({"doc": comment} if comment else {}))
        level.link(column.name.lower(), field["id"], make_node(column.name, merged.read))
        level.baseline.append(make_node(column.name, merged.baseline, baseline_comment, spelled=(column, before)))
        level.pushes.append((column, make_node(column.name, merged.pushed, pushed_comment, spelled=(column,))))

    def _report_misfit(
        self, level: SchemaLevel, where: str, before: SchemaNode | None, column: SchemaNode, field: Json
    ) -> None:
        if before is None:
            kinds = f"of type {column.text}, the table's is {format_type(field['type'])}"
            message = f"Hive has a new column {where!r} {kinds}: rename one"
        else:
            message = explain_unfollowable(where, before.text, column.text)
            level.baseline.append(before)
        self.report_conflict(where, message, FileCheck(rule=ColumnFileRule.FITS, field=field | {"name": column.name}))
        read = (hive_type(field["type"]) or STRING) if before is None else self.find_read_type(where, before, field)
        level.link(column.name.lower(), field["id"], make_node(column.name, read))
        level.pushes.append((column, column))

    def _keep_own(self, level: SchemaLevel, path: str, field: Json, hive: Mapping[str, SchemaNode]) -> None:
        """Keep a column that only the table has."""
        where, column = f"{path}{field['name'].lower()}", to_hive_node(field, field["name"])
        level.read[field["id"]] = column or make_node(field["name"].lower(), STRING)
        if column is None:
            message = f"column {where!r} was added here, Hive has no {format_type(field['type'])}"
            self.report_difference(where, message, is_only_here=True)
        elif column.name not in hive:
            self.report_difference(where, f"column {where!r} {column.text} was added here", is_only_here=True)
            level.pushes.append((None, column))

    def _merge_comment(self, where: str, old: str, new: str, field: Json) -> tuple[str, str, str]:
        """Merge a comment: the table's, the new baseline's, and the one to push to Hive."""
        ours, decides = field.get("doc") or "", self.sides.decides
        if new == ours:
            return ours, new, new
        if ours == old or (new != old and decides is SchemaAuthority.HIVE):
            self.drift.changes.append(f"changed the comment of column {where}")
            return new, new, new
        message = f"the comment of column {where!r} is {ours!r} here, {new!r} in Hive"
        if new == old or decides is SchemaAuthority.FIRN:
            self.report_difference(where, message)
            return ours, new, ours if len(ours) <= LONGEST_COMMENT else new
        self.report_conflict(where, f"{message}; both have changed it")
        return ours, old, new

    def _merge_order(self, level: SchemaLevel, path: str, baseline: Sequence[str], hive: Collection[str]) -> None:
        """Take Hive's order if the table's is unchanged. Firn never pushes an order, because of writers by position."""
        order_before = [name for name in baseline if name in level.linked and name in hive]
        common = set(order_before)
        order_now = [name for name in hive if name in common]
        position_by_id = {field["id"]: position for position, field in enumerate(level.ours)}
        order_here = sorted(order_now, key=lambda name: position_by_id[level.linked[name]])
        is_moved_here = order_here != order_before
        if order_now in (order_before, order_here) or (is_moved_here and self.sides.decides is SchemaAuthority.FIRN):
            return
        if not is_moved_here or self.sides.decides is SchemaAuthority.HIVE:
            fields = list(level.ours)
            for before, name in zip(order_here, order_now, strict=True):
                level.ours[position_by_id[level.linked[before]]] = fields[position_by_id[level.linked[name]]]
            self.drift.changes.append(f"put the {f'fields of {path[:-1]}' if path else 'columns'} into Hive's order")
            return
        self.report_conflict(
            path[:-1], f"both sides have moved {f'fields of {path[:-1]}' if path else 'columns'}, otherwise"
        )
        level.baseline.sort(
            key=lambda node: baseline.index(node.name.lower()) if node.name.lower() in baseline else len(baseline)
        )

    def _is_changed(self, where: str, before: SchemaNode, field: Json) -> bool:
        """Whether the table's column has changed since both sides were last the same."""
        trial = self.start_trial()
        if before.kind is None or (not where.count(".") and (field.get("doc") or "") != before.comment):
            return True
        trial.compare_type(where, before.kind, before.kind, field["type"])
        return bool(trial.drift.differences) or field["name"].lower() != before.name.lower()

    def _find_former(self, path: str, name: str) -> Json | None:
        """Find a former column of this name that the table no longer has."""
        former = None if path else find_former_type(self.sides.history, self.sides.schema, name)
        return None if former is None else remember_aliases(former, self.drift.aliases)
