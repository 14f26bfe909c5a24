"""Filters on manifests, partitions and files, with PyIceberg's transforms and evaluators.

A predicate that they cannot evaluate (types that PyIceberg does not compare, transforms of no partition field) counts
as "may match" and stays in the residual.  Each predicate is bound to a schema of its own with one column.  That column
is optional even if the table requires it, because a required field of a null struct is null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pyiceberg.exceptions
import pyiceberg.expressions as py
from pyiceberg.expressions.literals import (
    AboveMax,
    BelowMin,
    BinaryLiteral,
    FixedLiteral,
    FloatLiteral,
    Literal,
    literal,
)
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, expression_evaluator
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform, UnknownTransform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import FixedType, NestedField, PrimitiveType

from catalog.errors import Invalid
from catalog.files.data_file import PartitionValue
from catalog.scan.expression import (
    FALSE,
    PREFIXES,
    SETS,
    TRUE,
    UNARY,
    Expression,
    Op,
    Predicate,
    Term,
    holds,
    list_predicates,
    map_predicates,
)
from server.files.partitions import Spec, find_result_type, parse_primitive_type

_OPAQUE = frozenset({"unknown", "variant", "geometry", "geography", "timestamp_ns", "timestamptz_ns"})
_NUMBERS = frozenset({"int", "long", "float", "double"})
_WRITTEN_AS_TEXT = frozenset({"string", "uuid", "binary", "fixed"})
_COLUMN = "value"
_TRUE_ABOVE = frozenset({Op.LT, Op.LT_EQ, Op.NOT_EQ})
_TRUE_BELOW = frozenset({Op.GT, Op.GT_EQ, Op.NOT_EQ})
"""Comparisons that are true for every value of a column when the literal exceeds the limits of its type."""
_UNBOUND: Mapping[Op, Callable[..., py.BooleanExpression]] = {
    Op.IS_NULL: py.IsNull,
    Op.NOT_NULL: py.NotNull,
    Op.IS_NAN: py.IsNaN,
    Op.NOT_NAN: py.NotNaN,
    Op.LT: py.LessThan,
    Op.LT_EQ: py.LessThanOrEqual,
    Op.GT: py.GreaterThan,
    Op.GT_EQ: py.GreaterThanOrEqual,
    Op.EQ: py.EqualTo,
    Op.NOT_EQ: py.NotEqualTo,
    Op.STARTS_WITH: py.StartsWith,
    Op.NOT_STARTS_WITH: py.NotStartsWith,
    Op.IN: py.In,
    Op.NOT_IN: py.NotIn,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of a file, or of a manifest's partition field, with the names that PyIceberg expects."""

    record_count: int
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One partition field's evaluation of a predicate.

    `never` and `always` evaluate a value of the field: no row of the partition matches, or every row does.
    """

    position: int
    field_id: int
    kind: str
    never: Callable[[Record], bool] | None
    always: Callable[[Record], bool] | None
    summary: _InclusiveMetricsEvaluator | None


class _Leaf:
    """A predicate in PyIceberg's terms."""

    def __init__(self, predicate: Predicate) -> None:
        assert predicate.field is not None  # the scan has bound it
        self.field = predicate.field
        self.transform = predicate.term.transform
        self.schema: Schema | None = None
        kind = self.field.type
        if not isinstance(kind, str) or self.field.root in _OPAQUE:
            return
        source = parse_primitive_type(kind)
        if self.transform is not None:
            kind = self._result(predicate, source)
        self.schema = _build_schema(self.field.id, parse_primitive_type(kind))
        self.unbound = _build_unbound(predicate, kind)
        self.bound = self.unbound.bind(self.schema) if isinstance(self.unbound, py.UnboundPredicate) else self.unbound
        self.metrics = None if self.transform else _InclusiveMetricsEvaluator(self.schema, self.unbound)

    def _result(self, predicate: Predicate, source: PrimitiveType) -> str:
        transform = _parse_transform(str(self.transform))
        if transform is None or not transform.can_transform(source):
            raise Invalid(f"invalid filter: {self.field.name}, a {self.field.type}, has no transform {self.transform}")
        kind = find_result_type(str(self.transform), str(self.field.type))
        if predicate.op in PREFIXES and kind != "string":
            raise Invalid(f"invalid filter: {self.transform} of {self.field.name} has no prefixes")
        return kind

    def may_match(self, statistics: Statistics) -> bool:
        if self.schema is None or self.metrics is None:
            return True
        return self.metrics.eval(cast("DataFile", statistics))

    def parts(self, spec: Spec) -> list[_Part]:
        """Evaluate the predicate for the fields of a spec."""
        if self.schema is None or not isinstance(self.bound, py.BoundPredicate):
            return []
        parts = (
            self._part(position, field_id, kind, json_field["transform"])
            for position, ((field_id, _, kind), json_field) in enumerate(
                zip(spec.fields, spec.json_fields, strict=True)
            )
            if json_field.get("source-id") == self.field.id
        )
        return [part for part in parts if part is not None]

    def _part(self, position: int, field_id: int, kind: str, transform: str) -> _Part | None:
        schema = _build_schema(field_id, parse_primitive_type(kind))
        if self.transform is not None:
            if self.transform != transform:
                return None
            inclusive: py.BooleanExpression | None = self.unbound
            strict: py.BooleanExpression | None = self.unbound
        else:
            assert isinstance(self.bound, py.BoundPredicate)
            parsed = _parse_transform(transform)
            if parsed is None:
                return None
            inclusive = parsed.project(_COLUMN, self.bound)
            strict = parsed.strict_project(_COLUMN, self.bound)
        may_match = None if inclusive is None else expression_evaluator(schema, inclusive, case_sensitive=True)
        return _Part(
            position=position,
            field_id=field_id,
            kind=kind,
            never=None if may_match is None else lambda record: not may_match(record),
            always=None if strict is None else expression_evaluator(schema, strict, case_sensitive=True),
            summary=None if inclusive is None else _InclusiveMetricsEvaluator(schema, inclusive),
        )


class Filter:
    """One scan's filter; Invalid when a literal does not have its column's type."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._leaves = {predicate: _Leaf(predicate) for predicate in list_predicates(expression)}
        self._parts: dict[tuple[Predicate, int], list[_Part]] = {}
        self._residuals: dict[tuple[int, tuple[Any, ...]], Expression] = {}
        self.columns = {leaf.field.id: str(leaf.field.type) for leaf in self._leaves.values() if leaf.schema}
        """The types, by column id, of columns whose statistics select files."""

    def may_match_manifest(self, spec: Spec, summaries: Iterable[Mapping[str, Any]] | None) -> bool:
        """Whether a manifest with these summaries of its partition fields may list a matching file."""
        by_field = list(summaries or ())
        if len(by_field) != len(spec.fields):
            return True
        return holds(
            self._expression,
            lambda predicate: all(_may_match_summary(part, by_field) for part in self._find_parts(predicate, spec)),
        )

    def may_match_file(self, statistics: Statistics) -> bool:
        """Whether a file with these statistics may have a matching row."""
        return holds(self._expression, lambda predicate: self._leaves[predicate].may_match(statistics))

    def residual(self, spec: Spec, partition: tuple[PartitionValue, ...]) -> Expression:
        """Compute the filter that remains for the rows of a partition; FALSE when none can match."""
        key = (spec.spec_id, partition)
        if key not in self._residuals:
            self._residuals[key] = map_predicates(
                self._expression, lambda predicate: self._residual(predicate, spec, partition)
            )
        return self._residuals[key]

    def _residual(self, predicate: Predicate, spec: Spec, partition: tuple[PartitionValue, ...]) -> Expression:
        for part in self._find_parts(predicate, spec):
            value = partition[part.position]
            if value != value:  # noqa: PLR0124 (NaN: engines do not agree on how it compares)
                continue
            record = Record(value)
            if part.always is not None and part.always(record):
                return TRUE
            if part.never is not None and part.never(record):
                return FALSE
        return predicate

    def _find_parts(self, predicate: Predicate, spec: Spec) -> list[_Part]:
        key = (predicate, spec.spec_id)
        if key not in self._parts:
            self._parts[key] = self._leaves[predicate].parts(spec)
        return self._parts[key]


def _may_match_summary(part: _Part, summaries: list[Mapping[str, Any]]) -> bool:
    """Whether one of a manifest's partitions may match; the evaluator treats partitions like rows of a file."""
    if part.summary is None:
        return True
    summary, field_id = summaries[part.position], part.field_id
    has_null, has_nan = summary["contains_null"], summary.get("contains_nan")
    lower, upper = summary.get("lower_bound"), summary.get("upper_bound")
    if part.kind in ("float", "double") and has_nan is not False:
        return True
    all_null = has_null and lower is None and upper is None
    statistics = Statistics(
        record_count=1,
        value_counts={field_id: 1} if all_null else {},
        null_value_counts={field_id: 1 if has_null else 0},
        nan_value_counts={field_id: 0},
        lower_bounds={} if lower is None else {field_id: lower},
        upper_bounds={} if upper is None else {field_id: upper},
    )
    return part.summary.eval(cast("DataFile", statistics))


def _parse_transform(name: str) -> Transform[Any, Any] | None:
    """Parse a transform; None for one that PyIceberg does not know."""
    try:
        transform = parse_transform(name)
    except (ValueError, pyiceberg.exceptions.ValidationError):
        return None
    return None if isinstance(transform, UnknownTransform) else transform


def _build_schema(field_id: int, kind: PrimitiveType) -> Schema:
    return Schema(NestedField(field_id, _COLUMN, kind, required=False))


def _build_unbound(predicate: Predicate, kind: str) -> py.BooleanExpression:
    make = _UNBOUND[predicate.op]
    if predicate.op in UNARY:
        return make(_COLUMN)
    values = [parse_literal(kind, raw, predicate.term) for raw in predicate.literals]
    if predicate.op in SETS:
        # No value of the column exceeds the limits of its type, so such literals match nothing.
        return make(_COLUMN, [value for value in values if not isinstance(value, AboveMax | BelowMin)])
    if isinstance(values[0], AboveMax | BelowMin):
        always_true = _TRUE_ABOVE if isinstance(values[0], AboveMax) else _TRUE_BELOW
        return py.AlwaysTrue() if predicate.op in always_true else py.AlwaysFalse()
    return make(_COLUMN, values[0])


def parse_literal(kind: str, raw: Any, term: Term) -> Literal[Any]:
    """Parse a literal as a value of a type; Invalid when it is not one.

    Dates and times may also be numbers, as engines store them.
    """
    expected = parse_primitive_type(kind)
    root = kind.partition("(")[0].partition("[")[0]
    try:
        _check_shape(root, raw)
        if root == "binary":
            return BinaryLiteral(bytes.fromhex(raw))
        if root == "fixed":
            return FixedLiteral(_check_length(bytes.fromhex(raw), cast("FixedType", expected)))
        value = literal(raw).to(expected)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Invalid(f"Invalid value for conversion to type {kind}: {raw!r} ({term.name or term.field_id})") from error
    if isinstance(value, FloatLiteral):  # compared with the column's precision, not the client's
        return FloatLiteral(struct.unpack("<f", struct.pack("<f", value.value))[0])
    return value


def _check_shape(root: str, raw: Any) -> None:
    if isinstance(raw, bool) is not (root == "boolean"):
        raise TypeError("true and false are values only of booleans")
    if (root in _NUMBERS and isinstance(raw, str)) or (root in _WRITTEN_AS_TEXT and not isinstance(raw, str)):
        raise TypeError(f"not a {root}")
    if isinstance(raw, float) and root not in ("float", "double", "decimal"):
        raise TypeError(f"not a {root}")


def _check_length(value: bytes, kind: FixedType) -> bytes:
    if len(value) != len(kind):
        raise ValueError(f"{len(value)} bytes instead of {len(kind)}")
    return value
