"""SQL of the values of the scope whose rows may differ after inputs changed.

A row of a SELECT's join can come or go only because of a changed row of one of its inputs. So each changed input gives
a *term*, and the affected values are those of all terms:

- The changed rows alone, if they hold the scope (`Access.ROWS`).
- An input of FROM or of an inner join: the join with the changed rows in its place, at both states (`Access.JOIN`). A
  row that left a group is only in the old state's join. If no other input has changed, one join does for both.
- Others (left, full, EXISTS, IN): the rows of the unchanged join that match a changed row, at both states
  (`Access.MATCH`). They may have been extended with nulls, or hidden by NOT EXISTS.

A derived table is an input like any other: its changed rows are those with affected values of its own scope. Steps of
their own compute both, so that no SQL contains them twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp

from firn.pipelines.equalities import find_equal
from firn.pipelines.joins import choose_access, describe_term, join_leaves, match_changed_row
from firn.pipelines.plan import Access, State, Step, Term
from firn.pipelines.relations import (
    AFFECTED,
    rename_columns,
    rows_with_values,
    table_at,
    to_sql,
    under_alias,
    union_all,
    union_distinct,
    with_state,
)
from firn.pipelines.scope import require_scope
from firn.pipelines.selects import PREFIX, Leaf, Parts, column, take_apart, unwrap

STATES: Final = (State.OLD, State.NEW)
_CHANGED: Final = f"{PREFIX}changed"


class AffectedBuilder:
    """Makes the steps for one set of changed inputs, which are given by their prefixes.

    `followed` are the inputs whose changes the steps take into account.
    """

    def __init__(self, changed: frozenset[str]) -> None:
        self.changed = changed
        self.steps: list[Step] = []
        self.followed: set[str] = set()
        self._named: dict[str, str] = {}

    def build(self, query: exp.Query, scope: Sequence[str]) -> tuple[Step, ...]:
        """The steps for the query; the last one is `firn_affected`. Empty if no input has changed.

        Raises NotIncremental for a derived table without scope.
        """
        values = self._values(query, scope)
        if values:
            self.steps.append(Step(AFFECTED, to_sql(union_distinct(values))))
        return tuple(self.steps)

    def _values(self, query: exp.Expr, scope: Sequence[str]) -> list[exp.Query]:
        """Queries whose union holds the affected values of `scope`, as columns of these names."""
        query = unwrap(query)
        if isinstance(query, exp.SetOperation):
            return self._values_of_branches(query, scope)
        assert isinstance(query, exp.Select)  # noqa: S101 -- tells the type checker which queries remain
        parts = take_apart(query)
        changed = [leaf for leaf in parts.leaves if self._has_changed(leaf)]
        self.followed.update(leaf.table for leaf in changed if leaf.table is not None)
        return [values for leaf in changed for values in self._values_of_leaf(parts, leaf, scope)]

    def _values_of_branches(self, query: exp.SetOperation, scope: Sequence[str]) -> list[exp.Query]:
        positions = [query.left.named_selects.index(name) for name in scope]
        others = [query.right.named_selects[position] for position in positions]
        right = [rename_columns(values, others, scope) for values in self._values(query.right, others)]
        return [*self._values(query.left, scope), *right]

    def _has_changed(self, leaf: Leaf) -> bool:
        if leaf.query is None:
            return leaf.table in self.changed
        return any(table.name in self.changed for table in leaf.query.find_all(exp.Table))

    def _values_of_leaf(self, parts: Parts, leaf: Leaf, scope: Sequence[str]) -> list[exp.Query]:
        equal = {name: find_equal(parts, leaf, parts.output(name)) for name in scope}
        access = choose_access(parts, leaf, equal)
        if access is Access.ROWS:
            values = {name: value for name, value in equal.items() if value is not None}
            outputs = [exp.alias_(value.copy(), name, quoted=True) for name, value in values.items()]
            return [exp.select(*outputs).distinct().from_(self._changed_rows(leaf, leaf.alias, values.values()))]
        outputs = [exp.alias_(parts.output(name).copy(), name, quoted=True) for name in scope]
        if access is Access.JOIN and self._is_joined_once(parts, leaf):
            return [self._join_once(parts, leaf, outputs)]
        return [self._term(parts, leaf, outputs, access, state) for state in STATES]

    def _is_joined_once(self, parts: Parts, leaf: Leaf) -> bool:
        """Whether the join of the changed rows of both states is that of each: the others are the same at both."""
        return leaf.is_component and not any(self._has_changed(other) for other in parts.leaves if other is not leaf)

    def _join_once(self, parts: Parts, leaf: Leaf, outputs: list[exp.Expr]) -> exp.Select:
        """The scope's values in the join of the changed rows of both states with inputs that are the same at both."""
        sources = {other.alias: _at(other, State.NEW) for other in parts.leaves}
        rows = [exp.select("*").from_(self._changed_at(leaf, state)) for state in STATES]
        sources[leaf.alias] = under_alias(union_all(rows), leaf.alias)
        return join_leaves(exp.select(*(output.copy() for output in outputs)).distinct(), parts, sources)

    def _term(self, parts: Parts, leaf: Leaf, outputs: list[exp.Expr], access: Access, state: State) -> exp.Select:
        """The scope's values in the rows of the join that a change of the leaf affects, at one state."""
        sources = {other.alias: _at(other, state) for other in parts.leaves}
        if access is Access.JOIN:
            sources[leaf.alias] = self._changed_at(leaf, state)
        select = join_leaves(exp.select(*(output.copy() for output in outputs)).distinct(), parts, sources)
        return select if access is Access.JOIN else select.where(self._match(parts, leaf))

    def _match(self, parts: Parts, leaf: Leaf) -> exp.Exists:
        """The condition that a row of the join matches a changed row of the leaf, of either state."""
        condition = match_changed_row(parts, leaf, _CHANGED)
        columns = [part for part in condition.find_all(exp.Column) if part.table == _CHANGED]
        rows = self._changed_rows(leaf, _CHANGED, columns)
        return exp.Exists(this=exp.select("1").from_(rows).where(condition))

    def _changed_rows(self, leaf: Leaf, alias: str, used: Iterable[exp.Expr]) -> exp.Expr:
        """The rows of the leaf that may differ, of both states; only the columns that `used` reads."""
        names = sorted({part.name for node in used for part in node.find_all(exp.Column)})
        columns: list[exp.Expr] = [column(leaf.alias, name) for name in names]
        columns = columns or [exp.alias_(exp.Literal.number(1), "c", quoted=True)]
        states = [
            exp.select(*(part.copy() for part in columns)).from_(self._changed_at(leaf, state)) for state in STATES
        ]
        return under_alias(union_all(states), alias)

    def _changed_at(self, leaf: Leaf, state: State) -> exp.Expr:
        """The rows of the leaf that may differ, as they are at one state, under its alias."""
        changed = State.BEFORE if state is State.OLD else State.AFTER
        prefix = (leaf.table or "") if leaf.query is None else self._name_changes(leaf.query)
        return table_at(prefix, changed, leaf.alias)

    def _name_changes(self, query: exp.Query) -> str:
        """The prefix of the steps that hold the changed rows of a derived table; equal derived tables share them."""
        text = _fingerprint(query)
        if text not in self._named:
            scope = require_scope(query)
            values = self._values(query, scope)
            prefix = f"{AFFECTED}_{len(self._named) + 1}"
            self._named[text] = prefix
            self.steps.append(Step(prefix, to_sql(union_distinct(values))))
            for state, changed in ((State.OLD, State.BEFORE), (State.NEW, State.AFTER)):
                rows = rows_with_values(with_state(query, state), prefix, scope)
                self.steps.append(Step(f"{prefix}__{changed}", to_sql(rows)))
        return self._named[text]


def describe_terms(query: exp.Expr, scope: Sequence[str]) -> list[Term]:
    """How the changes of each input of a query find the affected values; the inputs in it are prefixes."""
    query = unwrap(query)
    if isinstance(query, exp.SetOperation):
        positions = [query.left.named_selects.index(name) for name in scope]
        others = [query.right.named_selects[position] for position in positions]
        return describe_terms(query.left, scope) + describe_terms(query.right, others)
    assert isinstance(query, exp.Select)  # noqa: S101 -- tells the type checker which queries remain
    parts = take_apart(query)
    terms = []
    for leaf in parts.leaves:
        equal = {name: find_equal(parts, leaf, parts.output(name)) for name in scope}
        terms.append(describe_term(parts, leaf, equal, choose_access(parts, leaf, equal)))
    return terms


def _at(leaf: Leaf, state: State) -> exp.Expr:
    if leaf.query is None:
        return table_at(leaf.table or "", state, leaf.alias)
    return under_alias(with_state(leaf.query, state), leaf.alias)


def _fingerprint(query: exp.Query) -> str:
    """SQL that is equal for queries that differ only in their aliases, such as copies of one CTE."""
    copy = query.copy()
    sources = [node for node in copy.find_all(exp.Table, exp.Subquery) if node.alias]
    names = {source.alias: f"a{number}" for number, source in enumerate(sources)}
    for source in sources:
        source.args["alias"].set("this", exp.to_identifier(names[source.alias]))
    for part in copy.find_all(exp.Column):
        if part.table in names:
            part.set("table", exp.to_identifier(names[part.table]))
    return copy.sql()
