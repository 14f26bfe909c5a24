"""The SQL of an incremental plan, made on demand: it depends on which inputs changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlglot import exp

from firn.pipelines.affected import AffectedBuilder, describe_terms
from firn.pipelines.full_reasons import NotIncremental, reason_at
from firn.pipelines.group_changes import GroupChanges, build_group_changes
from firn.pipelines.maintainable import Groups
from firn.pipelines.plan import Step, Term
from firn.pipelines.recompute import Prune, find_prunes, rows_sql
from firn.pipelines.selects import Leaf


@dataclass(frozen=True)
class Program:
    """A normalized query with its scope. `prefixes` are the names of its inputs in the query, by their real names.

    `columns` are those that the inputs have, by the same names. `groups` are None if no changes can be added to them.
    """

    query: exp.Query
    scope: tuple[str, ...]
    prefixes: Mapping[str, str]
    columns: Mapping[str, Sequence[str]]
    groups: Groups | None = None

    def affected(self, changed: frozenset[str]) -> tuple[Step, ...]:
        """The steps that compute the affected values if the inputs `changed` have changed."""
        known = frozenset(prefix for name, prefix in self.prefixes.items() if name in changed)
        return AffectedBuilder(known).build(self.query, self.scope)

    def group_changes(self, changed: frozenset[str]) -> GroupChanges | None:
        """How the changes of the inputs `changed` are added to the groups; None if they have to be recomputed."""
        leaf = self._find_maintained(changed)
        return None if self.groups is None or leaf is None else build_group_changes(self.groups, leaf, self.scope)

    def maintained_by(self) -> tuple[str, ...]:
        """The inputs whose changes can be added to the groups if no other input has changed."""
        return tuple(name for name in self.prefixes if self._find_maintained({name}) is not None)

    def _find_maintained(self, changed: Collection[str]) -> Leaf | None:
        """The only changed input, if its changes can be added."""
        prefixes = [prefix for name, prefix in self.prefixes.items() if name in changed]
        return None if self.groups is None or len(prefixes) != 1 else self.groups.find_changed(prefixes[0])

    def check(self) -> None:
        """Raise NotIncremental if the changes of an input cannot be followed."""
        builder = AffectedBuilder(frozenset(self.prefixes.values()))
        builder.build(self.query, self.scope)
        if builder.followed != set(self.prefixes.values()):
            text = "a subquery whose changes Firn cannot follow"
            raise NotIncremental(reason_at(self.query, text, "Write it as a derived table, and join that"))

    def rows(self, values: Mapping[str, Sequence[Any]]) -> str:
        """SQL of the rows with affected values, with inputs restricted by values of columns of the scope."""
        return rows_sql(self.query, self.scope, self._prunes, values)

    def pruned_columns(self) -> dict[str, tuple[str, ...]]:
        """For each column of the scope, the columns of inputs that `rows` restricts by its values."""
        names = {prefix: name for name, prefix in self.prefixes.items()}
        columns: dict[str, list[str]] = {}
        for prune in self._prunes:
            columns.setdefault(prune.output, []).append(f"{names[prune.prefix]}.{prune.column}")
        return {output: tuple(dict.fromkeys(pruned)) for output, pruned in columns.items()}

    def read_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each input that the query reads, by the input's name; a superset, in no order that counts.

        Names of columns are compared, whichever input they belong to. A `*` that is left reads all columns.
        """
        names = {node.name.lower() for node in self.query.find_all(exp.Column)}
        has_star = any(not isinstance(star.parent, exp.Count) for star in self.query.find_all(exp.Star))
        return {
            name: tuple(column for column in columns if has_star or column.lower() in names)
            for name, columns in self.columns.items()
        }

    def terms(self) -> tuple[Term, ...]:
        """How the changes of each input find the affected values, in the order of the query."""
        names = {prefix: name for name, prefix in self.prefixes.items()}

        def translate(prefixes: Sequence[str]) -> tuple[str, ...]:
            return tuple(names[prefix] for prefix in prefixes)

        added = {(name,) for name in self.maintained_by()}
        terms = (
            replace(term, inputs=translate(term.inputs), joined=translate(term.joined))
            for term in describe_terms(self.query, self.scope)
        )
        return tuple(replace(term, is_added=term.inputs in added) for term in terms)

    @cached_property
    def _prunes(self) -> list[Prune]:
        return list(find_prunes(self.query, {name: name for name in self.scope}))
