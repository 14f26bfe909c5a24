"""Columns that changed on either side of a linked table since both were last in step, compared three ways.

Per column and, within it, per part: what only Hive has changed is taken, what only this side has changed may be given
to Hive, and what both have changed otherwise is a conflict, which a policy decides or a person.  Hive knows columns by
name only: one that it has renamed is one that went and one that came.  What was renamed here keeps its name in Hive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from catalog.hive.columns import (
    ColumnFileRule,
    FileCheck,
    SchemaAuthority,
    SchemaDifference,
    SchemaDrift,
    SchemaPush,
    SchemaSides,
)
from catalog.hive.schema_diff import (
    LONGEST_COMMENT,
    STRING,
    NodeTypes,
    SchemaLevel,
    SchemaNode,
    additions,
    as_hive,
    beside,
    column_of,
    describe_field,
    describe_node,
    explain_unfollowable,
    fields_of,
    find_former_type,
    is_like,
    list_columns,
    may_become,
    part,
    remember_aliases,
    said,
    struct_of,
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


def compare_schemas(sides: SchemaSides) -> SchemaDrift:
    """What is to be taken from Hive, what may be given to it, and what somebody has to decide."""
    drift = SchemaDrift(
        schema=deepcopy(sides.schema),
        last_column_id=sides.last_column_id,
        aliases=list(sides.aliases),
        former=deepcopy(dict(sides.former)),
    )
    by_hive = {name.lower() for name in sides.partition_columns}
    fields: list[Json] = drift.schema["fields"]
    called = [*((one["id"], one["name"]) for one in fields), *sides.aliases]
    fixed = {at for at, name in called if name.lower() in by_hive}
    level = _Comparer(sides, drift).level(
        "", list_columns(sides.baseline), list_columns(sides.hive), fields, fixed=fixed
    )
    drift.schema["fields"] = level.ours
    drift.baseline = tuple(map(column_of, level.baseline))
    own = [one["id"] for one in level.ours if one["id"] not in level.linked.values() and one["id"] in level.read]
    drift.differences = [beside(one, sides.hive, level) for one in drift.differences]
    drift.readable = tuple(column_of(level.read[at]) for at in (*level.linked.values(), *own))
    drift.given = {
        SchemaPush.NONE: tuple(sides.hive),
        SchemaPush.ADDITIONS: tuple(column_of(one) for one in additions(level.gives)),
        SchemaPush.ALL: tuple(column_of(given) for _, given in level.gives if given is not None),
    }
    return drift


@dataclass(frozen=True, slots=True)
class _Comparer:
    sides: SchemaSides
    drift: SchemaDrift

    def level(
        self,
        path: str,
        baseline: Mapping[str, SchemaNode],
        hive: Mapping[str, SchemaNode],
        fields: Sequence[Json],
        *,
        fixed: Collection[int] = (),
    ) -> SchemaLevel:
        """Compare what stands side by side; fields that are `fixed` are Hive's partition columns."""
        out = SchemaLevel(list(fields))
        links, taken = self._links(baseline, hive, [one for one in fields if one["id"] not in fixed])
        for name in [*hive, *(one for one in baseline if one not in hive)]:
            g, h, o = baseline.get(name), hive.get(name), links.get(name)
            if h is not None and g is None and name in taken:
                self._collides(out, path, h, taken[name])
            elif h is None and g is not None:
                self._gone(out, path, g, o)
            elif h is not None and o is not None:
                self._both(out, path, g, h, o)
            elif h is not None and g is not None:
                self._dropped_here(out, path, g, h)
            elif h is not None:
                self._come(out, path, h)
        known = {one["id"] for one in links.values()} | set(out.linked.values()) | set(fixed)
        for one in fields:
            if one["id"] not in known:
                self._own(out, path, one, hive)
        self._order(out, path, list(baseline), hive)
        return out

    def _links(
        self, baseline: Mapping[str, SchemaNode], hive: Mapping[str, SchemaNode], fields: Sequence[Json]
    ) -> tuple[dict[str, Json], dict[str, str]]:
        """The field for each of Hive's names; and new names that another column was given here, with its name there."""
        by_id = {one["id"]: one for one in fields}
        called: dict[str, list[Json]] = {}
        for at, name in [*((one["id"], one["name"]) for one in fields), *self.drift.aliases]:
            if at in by_id:
                called.setdefault(name.lower(), []).append(by_id[at])
        found: dict[str, Json] = {}
        holder: dict[int, str] = {}
        taken: dict[str, str] = {}
        for name in [*baseline, *(one for one in hive if one not in baseline)]:
            for one in called.get(name, ()):
                if one["id"] not in holder:
                    found[name], holder[one["id"]] = one, name
                    break
                taken.setdefault(name, holder[one["id"]])
        return found, {name: other for name, other in taken.items() if name not in found}

    def _collides(self, out: SchemaLevel, path: str, h: SchemaNode, other: str) -> None:
        """Both would be one column, in every file that holds the new one."""
        where = f"{path}{h.name.lower()}"
        probe = {"id": 1, "name": where.partition(".")[0], "required": False, "type": "string"}
        self._conflict(
            where,
            f"Hive has a new column {where!r}; the table's is what Hive calls {path + other!r}: rename one of them",
            FileCheck(rule=ColumnFileRule.LACKS, field=probe),
        )
        out.gives.append((h, h))

    def _come(self, out: SchemaLevel, path: str, h: SchemaNode, once: Json | None = None) -> None:
        """A column that only Hive has; one that the table once had comes back with the values that it had."""
        where = f"{path}{h.name.lower()}"
        once = self.drift.former.get(where, once)
        out.gives.append((h, h))
        if h.kind is None:
            self._conflict(where, f"Hive has a new column {where!r} of type {h.text}, which Iceberg does not have")
            return
        if once is not None:
            self._revive(out, where, h, h.kind, once)
            return
        field_id = self.drift.next_id()
        made = {"id": field_id, "name": h.name, "required": False, "type": iceberg_type(h.kind, self.drift.next_id)}
        out.put(made | ({"doc": h.comment} if h.comment else {}))
        out.link(h.name.lower(), field_id, h)
        out.baseline.append(h)
        self.drift.changes.append(f"added column {path}{h.name} {h.text}")

    def _revive(self, out: SchemaLevel, where: str, h: SchemaNode, now: HiveType, once: Json) -> None:
        """Hive's readers see what its files hold under the name, so the field is the one that it was."""
        before: Json = once["field"]
        kind, trial = hive_type(before["type"]), self._trial()
        became = None if kind is None else trial.type_of(where, kind, now, before["type"])
        is_named = any(one["name"].lower() == before["name"].lower() for one in out.ours)
        if became is None or trial.drift.conflicts or is_named:
            had = f"files hold it as {said(before['type'])}" if not is_named else "its name is taken here"
            self._conflict(where, f"Hive has column {where!r} again, as {h.text}; {had}: give it another name in Hive")
            return
        made = {key: value for key, value in before.items() if key != "doc"}
        out.put(made | {"type": became.ours} | ({"doc": h.comment} if h.comment else {}))
        self._accept(trial)
        self.drift.aliases += [(at, name) for at, name in once["names"]]
        self.drift.aliases.append((made["id"], h.name))
        self.drift.former.pop(where, None)
        self.drift.revived.append(where)
        out.link(h.name.lower(), made["id"], part(h.name, became.read))
        out.baseline.append(h)
        self.drift.changes.append(f"took column {where} back")

    def _gone(self, out: SchemaLevel, path: str, g: SchemaNode, o: Json | None) -> None:
        """A column that Hive has no more."""
        where = f"{path}{g.name.lower()}"
        if o is None:
            once = self._in_history(path, g.name)
            if once is not None:
                self.drift.former[where] = once
            return
        decides, kept = self.sides.decides, True
        if not path and self.sides.is_needed(o):
            check = FileCheck(rule=ColumnFileRule.HOLDS, field=o | {"name": g.name})
            words = f"Hive has dropped column {where!r}, which the table's key needs: add it again in Hive"
            if decides is SchemaAuthority.FIRN:
                self._differ(where, words, check)
            else:
                self._conflict(where, f"{words} (ALTER TABLE … ADD COLUMNS), its values are still in the files", check)
        elif decides is SchemaAuthority.HIVE or not self._is_changed(where, g, o):
            out.ours.remove(o)
            self.drift.former[where] = remember_aliases(o, self.drift.aliases)
            self.drift.changes.append(f"dropped column {where}")
            kept = False
        elif decides is SchemaAuthority.FIRN:
            self._differ(where, f"Hive has dropped column {where!r}, which was changed here", is_only_here=True)
        else:
            self._conflict(
                where, f"Hive has dropped column {where!r}, which was changed here since: {describe_field(o)}"
            )
        if kept:
            out.baseline.append(g)
            out.linked[g.name.lower()], out.read[o["id"]] = o["id"], part(g.name, self._reading(where, g, o))
            if decides is SchemaAuthority.FIRN:
                out.gives.append((None, as_hive(o, g.name)))

    def _dropped_here(self, out: SchemaLevel, path: str, g: SchemaNode, h: SchemaNode) -> None:
        where, decides = f"{path}{h.name.lower()}", self.sides.decides
        is_as_it_was = is_like(g.kind) == is_like(h.kind) and g.comment == h.comment
        if not is_as_it_was and decides is SchemaAuthority.HIVE:
            self._come(out, path, h, self._in_history(path, h.name))
            return
        if is_as_it_was or decides is SchemaAuthority.FIRN:
            self._differ(where, f"column {where!r} was dropped here, Hive has it")
            out.baseline.append(h)
            out.gives.append((h, None))
            return
        self._conflict(
            where, f"column {where!r} was dropped here; Hive has changed it since, it is {describe_node(h)} there"
        )
        out.baseline.append(g)
        out.gives.append((h, h))

    def _both(self, out: SchemaLevel, path: str, g: SchemaNode | None, h: SchemaNode, o: Json) -> None:
        """A column that both sides have."""
        where = f"{path}{h.name.lower()}"
        trial = self._trial()
        old = h.kind if g is None else g.kind
        became = None
        if h.kind is not None and old is not None:
            became = trial.type_of(where, old, h.kind, o["type"])
        if became is None or (g is None and trial.drift.conflicts):
            self._misfit(out, where, g, h, o)
            return
        at = len(self.drift.differences)
        self._accept(trial)
        check = FileCheck(rule=ColumnFileRule.FITS, field=o | {"name": h.name})
        if not path:
            self.drift.differences[at:] = [
                replace(one, check=one.check or check) if one.is_conflict else one
                for one in self.drift.differences[at:]
            ]
        doc, in_step, given = (
            self._comment(where, "" if g is None else g.comment, h.comment, o) if not path else ("",) * 3
        )
        made = {key: value for key, value in o.items() if key != "doc" or path} | {"type": became.ours}
        out.replace(o, made | ({"doc": doc} if doc else {}))
        out.link(h.name.lower(), o["id"], part(h.name, became.read))
        out.baseline.append(part(h.name, became.baseline, in_step, spelled=(h, g)))
        out.gives.append((h, part(h.name, became.given, given, spelled=(h,))))

    def _misfit(self, out: SchemaLevel, where: str, g: SchemaNode | None, h: SchemaNode, o: Json) -> None:
        if g is None:
            words = f"Hive has a new column {where!r} of type {h.text}, the table's is {said(o['type'])}: rename one"
        else:
            words = explain_unfollowable(where, g.text, h.text)
            out.baseline.append(g)
        self._conflict(where, words, FileCheck(rule=ColumnFileRule.FITS, field=o | {"name": h.name}))
        read = (hive_type(o["type"]) or STRING) if g is None else self._reading(where, g, o)
        out.link(h.name.lower(), o["id"], part(h.name, read))
        out.gives.append((h, h))

    def _own(self, out: SchemaLevel, path: str, one: Json, hive: Mapping[str, SchemaNode]) -> None:
        """A column that only this side has."""
        where, made = f"{path}{one['name'].lower()}", as_hive(one, one["name"])
        out.read[one["id"]] = made or part(one["name"].lower(), STRING)
        if made is None:
            self._differ(where, f"column {where!r} was added here, Hive has no {said(one['type'])}", is_only_here=True)
        elif made.name not in hive:
            self._differ(where, f"column {where!r} {made.text} was added here", is_only_here=True)
            out.gives.append((None, made))

    def _comment(self, where: str, old: str, new: str, o: Json) -> tuple[str, str, str]:
        """Ours, the one in step, and the one that Hive may be given."""
        ours, decides = o.get("doc") or "", self.sides.decides
        if new == ours:
            return ours, new, new
        if ours == old or (new != old and decides is SchemaAuthority.HIVE):
            self.drift.changes.append(f"changed the comment of column {where}")
            return new, new, new
        words = f"the comment of column {where!r} is {ours!r} here, {new!r} in Hive"
        if new == old or decides is SchemaAuthority.FIRN:
            self._differ(where, words)
            return ours, new, ours if len(ours) <= LONGEST_COMMENT else new
        self._conflict(where, f"{words}; both have changed it")
        return ours, old, new

    def _order(self, out: SchemaLevel, path: str, baseline: Sequence[str], hive: Collection[str]) -> None:
        """Hive's order is taken where ours is what it was; it is never given, for writers that go by position."""
        was = [name for name in baseline if name in out.linked and name in hive]
        common = set(was)
        now = [name for name in hive if name in common]
        at = {one["id"]: place for place, one in enumerate(out.ours)}
        ours = sorted(now, key=lambda name: at[out.linked[name]])
        if now in (was, ours) or (ours != was and self.sides.decides is SchemaAuthority.FIRN):
            return
        if ours == was or self.sides.decides is SchemaAuthority.HIVE:
            fields = list(out.ours)
            for before, name in zip(ours, now, strict=True):
                out.ours[at[out.linked[before]]] = fields[at[out.linked[name]]]
            self.drift.changes.append(f"put the {f'fields of {path[:-1]}' if path else 'columns'} into Hive's order")
            return
        self._conflict(path[:-1], f"both sides have moved {f'fields of {path[:-1]}' if path else 'columns'}, otherwise")
        out.baseline.sort(
            key=lambda part: baseline.index(part.name.lower()) if part.name.lower() in baseline else len(baseline)
        )

    def type_of(self, where: str, old: HiveType, new: HiveType, ours: Any) -> NodeTypes:
        """A type, changed in Hive from `old` to `new`, and `ours` since it was `old`."""
        kind = ours if isinstance(ours, str) else ours["type"]
        match old, new, kind:
            case StructOf(), StructOf(), "struct":
                level = self.level(f"{where}.", fields_of(old), fields_of(new), ours["fields"])
                given = [part for _, part in level.gives if part is not None]
                read = [level.read[one["id"]] for one in level.ours]
                kinds = struct_of(level.baseline), struct_of(given), struct_of(read)
                return NodeTypes(ours | {"fields": level.ours}, *kinds)
            case ListOf(one), ListOf(other), "list":
                inner = self.type_of(f"{where}.element", one, other, ours["element"])
                return NodeTypes(ours | {"element": inner.ours}, *map(ListOf, inner[1:]))
            case MapOf(key, one), MapOf(new_key, other), "map" if key == new_key:
                inner = self.type_of(f"{where}.value", one, other, ours["value"])
                return NodeTypes(ours | {"value": inner.ours}, *(MapOf(key, kind) for kind in inner[1:]))
            case Named(), Named(), _ if isinstance(ours, str):
                return self._leaf(where, old, new, ours)
            case _:
                return self._apart(where, old, new, ours)

    def _leaf(self, where: str, old: Named, new: Named, ours: str) -> NodeTypes:
        try:
            before, after = (str(iceberg_type(kind, lambda: 0)) for kind in (old, new))
        except UnsupportedType:
            return self._apart(where, old, new, ours)
        if after == ours:
            return NodeTypes(ours, new, new, new)
        is_wider = before == after or may_become(before, after)
        if is_wider and may_become(after, ours):
            self._differ(where, f"column {where!r} is {said(ours)} here, {format_hive_type(new)} in Hive")
            return NodeTypes(ours, new, hive_type(ours) or new, new)
        if before != after and may_become(ours, after):
            self.drift.changes.append(f"widened column {where} from {ours} to {after}")
            return NodeTypes(after, new, new, new)
        return self._apart(where, old, new, ours)

    def _apart(self, where: str, old: HiveType, new: HiveType, ours: Any) -> NodeTypes:
        if is_like(old) == is_like(new):
            words = f"column {where!r} is {said(ours)} here, {format_hive_type(new)} in Hive, whose files do not fit it"
        else:
            words = explain_unfollowable(where, format_hive_type(old), format_hive_type(new))
        self._conflict(where, words)
        return NodeTypes(ours, old, new, hive_type(ours) or old)

    def _reading(self, where: str, part: SchemaNode, o: Json) -> HiveType:
        """The type by which files that were written as `part` hold the values of a field of ours."""
        if part.kind is None:
            return hive_type(o["type"]) or STRING
        return self._trial().type_of(where, part.kind, part.kind, o["type"]).read

    def _is_changed(self, where: str, g: SchemaNode, o: Json) -> bool:
        """Whether a column is another here than it was when both sides were in step."""
        trial = self._trial()
        if g.kind is None or (not where.count(".") and (o.get("doc") or "") != g.comment):
            return True
        trial.type_of(where, g.kind, g.kind, o["type"])
        return bool(trial.drift.differences) or o["name"].lower() != g.name.lower()

    def _in_history(self, path: str, name: str) -> Json | None:
        """A column of that name that the table had once and has no more."""
        found = None if path else find_former_type(self.sides.history, self.sides.schema, name)
        return None if found is None else remember_aliases(found, self.drift.aliases)

    def _trial(self) -> _Comparer:
        """The same, on the side: what it finds counts once it is accepted."""
        blank = SchemaDrift(
            schema=self.drift.schema,
            last_column_id=self.drift.last_column_id,
            aliases=list(self.drift.aliases),
            former=dict(self.drift.former),
        )
        return _Comparer(self.sides, blank)

    def _accept(self, trial: _Comparer) -> None:
        found, mine = trial.drift, self.drift
        mine.last_column_id, mine.aliases, mine.former = found.last_column_id, found.aliases, found.former
        mine.changes += found.changes
        mine.differences += found.differences
        mine.revived += found.revived

    def _conflict(self, where: str, words: str, check: FileCheck | None = None) -> None:
        self.drift.differences.append(SchemaDifference(column=where, what=words, is_conflict=True, check=check))

    def _differ(self, where: str, words: str, check: FileCheck | None = None, *, is_only_here: bool = False) -> None:
        self.drift.differences.append(
            SchemaDifference(column=where, what=words, check=check, is_only_here=is_only_here)
        )
