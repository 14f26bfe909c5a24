"""Values of expressions in templates: texts, whole numbers, lists and what `ref`, `source` and `var` give.

Firn computes them itself from jinja2's parse tree: no Python code is made of a template, and there are no attributes
and no methods, so nothing leads from a template to the process that reads it. Each step counts against a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

from jinja2 import nodes

from firn.pipelines.errors import InvalidDefinition

Value: TypeAlias = "str | int | bool | list[Any] | dict[str, Any] | None"
MOST_STEPS: Final = 100_000
LONGEST_TEXT: Final = 200_000
_LONGEST_LIST: Final = 10_000
_LARGEST: Final = 10**18
_PLANNER: Final = "delete it and what it guards: Firn's planner finds what to read"
_SETTINGS: Final = "write settings in TBLPROPERTIES or firn-pipeline.yml"
_REFUSED: Final = {
    "is_incremental": (
        "Firn's planner decides what is computed incrementally, so there is no is_incremental()",
        _PLANNER,
    ),
    "this": ("a query of a pipeline does not read its own table, so there is no {{ this }}", _PLANNER),
    "run_time": (
        "run_time has another value in each run, so the table would be computed in full each time",
        "read the time from a column of an input",
    ),
    "run_started_at": (
        "run_started_at has another value in each run, so the table would be computed in full each time",
        "read the time from a column of an input",
    ),
    "config": ("there is no config() here", _SETTINGS),
    "env_var": ("a definition does not read the environment, so there is no env_var()", "write var('name') and `vars`"),
}


@dataclass
class Budget:
    """What one template may still do."""

    steps: int = MOST_STEPS

    def spend(self, line: int, steps: int = 1) -> None:
        """Count steps. Raises InvalidDefinition if there were too many."""
        self.steps -= steps
        if self.steps < 0:
            raise InvalidDefinition(f"the template takes more than {MOST_STEPS:,} steps", line=line)


Function: TypeAlias = Callable[[nodes.Call, Sequence[Value]], Value]


@dataclass
class Expressions:
    """Computes expressions. `functions` are those that a template may call."""

    functions: Mapping[str, Function]
    budget: Budget = field(default_factory=Budget)

    def compute(self, node: nodes.Node, names: Mapping[str, Value]) -> Value:
        """The value of an expression. Raises InvalidDefinition with the line of what is wrong or not allowed."""
        self.budget.spend(node.lineno)
        compute = _COMPUTE.get(type(node))
        if compute is None:
            refuse(node, f"{type(node).__name__} is not allowed in a template")
        value = _check_size(node, compute(self, node, names))
        if isinstance(value, (str, list)):  # to copy a long one takes as long as many steps
            self.budget.spend(node.lineno, len(value) // 1_000)
        return value

    def call(self, node: nodes.Call, names: Mapping[str, Value]) -> Value:
        """The value of a call of one of the functions, which are called by their names alone."""
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        if name in _REFUSED:
            refuse(node, *_REFUSED[name])
        if name not in self.functions:
            refuse(node, f"{name or 'a method'}() cannot be called in a template", f"there are {_join(self.functions)}")
        if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
            refuse(node, f"{name}() takes values alone, without names and stars")
        return self.functions[name](node, [self.compute(argument, names) for argument in node.args])

    def filter(self, node: nodes.Filter, names: Mapping[str, Value]) -> Value:
        """The value of `x | filter`."""
        function = _FILTERS.get(node.name)
        if function is None or node.node is None:
            refuse(node, f"there is no filter {node.name}", f"there are {_join(_FILTERS)}")
        if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
            refuse(node, f"the filter {node.name} takes values alone, without names and stars")
        arguments = [self.compute(argument, names) for argument in node.args]
        return _try(node, lambda: function(self.compute(node.node, names), *arguments))  # type: ignore[arg-type]


def refuse(node: nodes.Node, reason: str, hint: str | None = None) -> NoReturn:
    """Raise InvalidDefinition with the line of a node."""
    raise InvalidDefinition(reason, line=node.lineno, hint=hint)


def write_text(node: nodes.Node, value: Value) -> str:
    """A value as it stands in the SQL."""
    if isinstance(value, (list, dict)):
        refuse(node, "a list cannot be written into the SQL", "write it with a loop, or with | join(', ')")
    return str(value)


def _check_size(node: nodes.Node, value: Value) -> Value:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        refuse(node, f"a text of the template has more than {LONGEST_TEXT:,} characters")
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        refuse(node, f"a list of the template has more than {_LONGEST_LIST:,} values")
    if isinstance(value, int) and abs(value) > _LARGEST:
        refuse(node, "a number of the template is too large")
    return value


def _try(node: nodes.Node, compute: Callable[[], Value]) -> Value:
    try:
        return compute()
    except (TypeError, ValueError, LookupError, ZeroDivisionError, AttributeError) as error:
        raise InvalidDefinition(f"the template cannot be computed: {str(error)[:200]}", line=node.lineno) from error


def _const(_expressions: Expressions, node: Any, _names: Mapping[str, Value]) -> Value:
    if node.value is not None and not isinstance(node.value, (str, int)):
        refuse(node, f"{node.value!r} is neither a text nor a whole number", "write it as a text")
    value: Value = node.value
    return value


def _name(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    if node.name in names:
        return names[node.name]
    if node.name in _REFUSED:
        refuse(node, *_REFUSED[node.name])
    hint = f"there are {_join(expressions.functions)}; variables of firn-pipeline.yml are var('name')"
    refuse(node, f"the template has no {node.name}", hint)


def _list(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    values = [expressions.compute(item, names) for item in node.items]
    if any(isinstance(part, list) for value in values if isinstance(value, list) for part in value):
        refuse(node, "a list of a template holds no lists of lists")  # 60 of them could hold 2^60 values
    return values


def _attribute(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    """`loop.first` and its like: the only values with parts that have names."""
    value = expressions.compute(node.node, names)
    if not isinstance(value, dict) or node.attr not in value:
        refuse(node, f"there is no .{node.attr} in a template", "loop has index, index0, first, last and length")
    part: Value = value[node.attr]
    return part


def _item(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    value, index = expressions.compute(node.node, names), node.arg
    number = expressions.compute(index, names)
    if not isinstance(value, list) or not isinstance(number, int):
        refuse(node, "only a list has parts, by their numbers")
    return _try(node, lambda: value[number])


def _operate(apply: Callable[[Any, Any], Value]) -> Callable[[Expressions, Any, Mapping[str, Value]], Value]:
    def compute(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
        left, right = expressions.compute(node.left, names), expressions.compute(node.right, names)
        return _try(node, lambda: apply(left, right))

    return compute


def _add(left: Any, right: Any) -> Value:
    if isinstance(left, bool) or isinstance(right, bool):
        raise TypeError("true and false cannot be added")
    value: Value = left + right
    return value


def _calculate(apply: Callable[[int, int], int]) -> Callable[[Any, Any], Value]:
    """An operation of numbers alone: `'a' * 1000000000` would fill the memory."""

    def compute(left: Any, right: Any) -> Value:
        if not (isinstance(left, int) and isinstance(right, int)):
            raise TypeError("only numbers can be calculated with")
        return apply(left, right)

    return compute


def _concat(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    values = [expressions.compute(part, names) for part in node.nodes]
    return _try(node, lambda: _join_texts(values))


def _compare(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    left = expressions.compute(node.expr, names)
    for operand in node.ops:
        right = expressions.compute(operand.expr, names)
        compare = _COMPARISONS[operand.op]
        if not _try(node, lambda left=left, right=right, compare=compare: compare(left, right)):  # type: ignore[misc]
            return False
        left = right
    return True


def _and(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    return expressions.compute(node.left, names) and expressions.compute(node.right, names)


def _or(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    return expressions.compute(node.left, names) or expressions.compute(node.right, names)


def _not(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    return not expressions.compute(node.node, names)


def _negate(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    value = expressions.compute(node.node, names)
    return _try(node, lambda: -value)  # type: ignore[operator]


def _choose(expressions: Expressions, node: Any, names: Mapping[str, Value]) -> Value:
    if expressions.compute(node.test, names):
        return expressions.compute(node.expr1, names)
    return "" if node.expr2 is None else expressions.compute(node.expr2, names)


def _to_text(value: Value) -> str:
    if isinstance(value, (list, dict)):
        raise TypeError("a list is no text")
    return str(value)


def _join_texts(values: Sequence[Value], separator: Value = "") -> str:
    """The texts in one, if that does not get too long: its length is known before it takes memory."""
    texts, between = [_to_text(value) for value in values], _to_text(separator)
    if sum(map(len, texts)) + len(between) * len(texts) > LONGEST_TEXT:
        raise ValueError(f"a text has more than {LONGEST_TEXT:,} characters")
    return between.join(texts)


def _join(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(names)


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "lt": lambda left, right: left < right,
    "lteq": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "gteq": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
_FILTERS: Final[Mapping[str, Callable[..., Value]]] = {
    "first": lambda value: value[0],
    "int": lambda value: int(value[:20] if isinstance(value, str) else value),
    "join": _join_texts,
    "last": lambda value: value[-1],
    "length": len,
    "lower": lambda value: _to_text(value).lower(),
    "trim": lambda value: _to_text(value).strip(),
    "upper": lambda value: _to_text(value).upper(),
}
"""`replace` and its like are missing because they can make a text much longer in one step."""
_COMPUTE: Final[Mapping[type, Callable[[Expressions, Any, Mapping[str, Value]], Value]]] = {
    nodes.Const: _const,
    nodes.Name: _name,
    nodes.List: _list,
    nodes.Tuple: _list,
    nodes.Call: Expressions.call,
    nodes.Filter: Expressions.filter,
    nodes.Getattr: _attribute,
    nodes.Getitem: _item,
    nodes.Add: _operate(_add),
    nodes.Sub: _operate(_calculate(lambda left, right: left - right)),
    nodes.Mul: _operate(_calculate(lambda left, right: left * right)),
    nodes.Mod: _operate(_calculate(lambda left, right: left % right)),
    nodes.Concat: _concat,
    nodes.Compare: _compare,
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.Neg: _negate,
    nodes.CondExpr: _choose,
}
