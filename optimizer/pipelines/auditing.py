"""The audit of a run: its validators look at the rows before they are committed, so readers never see a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.errors import Invalid
from firn.pipelines.validators import AUDITED, CHANGED, check_validator, write_condition, write_query
from firn.protocol.names import quote_name
from firn.protocol.validators import MOST_EXAMPLES, Severity, Validator, ValidatorKind, ValidatorResult
from firn.spark.errors import reason
from firn.spark.python_code import run_validator
from optimizer.errors import Refused
from optimizer.pipelines.full_comparison import find_different

_LONGEST_VALUE = 200
_SHOWN = 3


class AuditFailed(Refused):
    """A validator with the severity `fail` found a violation, so the run commits nothing."""

    def __init__(self, results: Sequence[ValidatorResult]) -> None:
        failed = [result for result in results if not result.passed and result.severity is Severity.FAIL]
        shown = "; ".join(_describe(result) for result in failed[:_SHOWN])
        more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
        super().__init__(f"audit failed, and nothing was committed: {shown}{more}")
        self.results = list(results)


@dataclass(frozen=True)
class AuditedRows:
    """What validators may look at: the rows that the run writes, the table as it would be, and as it is.

    The last two are read only if a validator needs them.
    """

    changed: DataFrame
    audited: Callable[[], DataFrame]
    current: Callable[[], DataFrame]


@dataclass(frozen=True)
class KeptRows:
    """What the validators of the severity `drop` leave of computed rows.

    `violations` are all computed rows with the array `rules`, the names of the validators that each one violates; None
    if nothing is dropped.
    """

    rows: DataFrame
    results: list[ValidatorResult]
    dropped: int
    violations: DataFrame | None = None


@dataclass(frozen=True)
class Audit:
    """The validators of a table with these columns. `read_input` gives an input at the run's pins."""

    spark: SparkSession
    validators: Sequence[Validator]
    columns: Sequence[str]
    inputs: Sequence[str]
    key: Sequence[str]
    read_input: Callable[[str], DataFrame]
    texts: Mapping[str, str] = field(default_factory=dict)
    """The Python files of the run."""
    compute_full: Callable[[], DataFrame] | None = None
    """All rows as a full run would compute them; None if the run has computed all rows itself."""

    def __post_init__(self) -> None:
        lowered = [name.lower() for name in self.columns]
        for validator in self.validators:  # what the server stores is what a user sent
            check_validator(validator, lowered, self.inputs, self.key)

    def select_full_comparisons(self) -> Audit:
        """The validators that compare with a full computation alone."""
        compared = [validator for validator in self.validators if validator.kind is ValidatorKind.SAME_AS_FULL]
        return replace(self, validators=compared)

    def drop_wrong(self, rows: DataFrame) -> KeptRows:
        """Leave out the rows that violate a validator of the severity `drop`. Raises Refused if one cannot be run."""
        dropping = [validator for validator in self.validators if validator.severity is Severity.DROP]
        results = self._check_rows(dropping, rows)
        wrong = [validator for validator, result in zip(dropping, results, strict=True) if not result.passed]
        if not wrong:
            return KeptRows(rows, results, 0)
        kept = rows
        for validator in wrong:
            kept = kept.where(self._condition(validator))
        counts = [result.violations or 0 for result in results if not result.passed]
        # Two validators may leave out the same row.
        dropped = rows.count() - kept.count() if len(counts) > 1 else sum(counts)
        return KeptRows(kept, results, dropped, self._list_rules(rows, wrong))

    def _list_rules(self, rows: DataFrame, wrong: Sequence[Validator]) -> DataFrame:
        """All rows as the struct `row`, with the names of the rules that they violate."""
        names = [F.when(~F.expr(self._condition(rule)), F.lit(rule.name)) for rule in wrong]
        row = F.struct(*(F.col(quote_name(name)) for name in rows.columns))
        return rows.select(row.alias("row"), F.array_compact(F.array(*names)).alias("rules"))

    def check(self, rows: AuditedRows) -> list[ValidatorResult]:
        """What the other validators find. Raises AuditFailed if one fails the run, Refused if one cannot be run."""
        others = [validator for validator in self.validators if validator.severity is not Severity.DROP]
        of_rows = [validator for validator in others if validator.kind.is_of_rows]
        counted = iter(self._check_rows(of_rows, rows.changed))
        results = [next(counted) if item.kind.is_of_rows else self._check_table(item, rows) for item in others]
        if any(not result.passed and result.severity is Severity.FAIL for result in results):
            raise AuditFailed(results)
        return results

    def _check_rows(self, validators: Sequence[Validator], rows: DataFrame) -> list[ValidatorResult]:
        """Count the violations of all validators in one pass."""
        if not validators:
            return []
        conditions = [self._condition(validator) for validator in validators]
        try:
            counts = rows.agg(*(F.count_if(~F.expr(text)).alias(f"v{i}") for i, text in enumerate(conditions))).first()
        except PySparkException as error:
            raise Refused(f"a validator cannot be run: {reason(error)}") from error
        assert counts is not None  # noqa: S101 -- an aggregate without groups has one row
        return [
            _build_result(validator, int(counts[f"v{i}"]), rows.where(~F.expr(conditions[i])))
            for i, validator in enumerate(validators)
        ]

    def _check_table(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        checks = {
            ValidatorKind.REFERENCES: self._check_references,
            ValidatorKind.UNIQUE: self._check_unique,
            ValidatorKind.ROW_COUNT: self._check_row_count,
            ValidatorKind.SQL: self._check_query,
            ValidatorKind.PYTHON: self._check_python,
            ValidatorKind.SAME_AS_FULL: self._check_same,
        }
        try:
            return checks[validator.kind](validator, rows)
        except (PySparkException, Invalid) as error:
            words = error.message if isinstance(error, Invalid) else reason(error)
            raise Refused(f"validator {validator.name} cannot be run: {words}") from error

    def _check_python(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        """A function gives the wrong rows, or sentences about what is wrong."""
        assert validator.function is not None  # noqa: S101 -- check_validator has seen it
        answer = run_validator(self.spark, validator.function, self.texts, rows.audited(), rows.changed)
        if isinstance(answer, DataFrame):
            return _build_result(validator, answer.count(), answer)
        if (
            not isinstance(answer, Sequence)
            or isinstance(answer, str)
            or not all(isinstance(part, str) for part in answer)
        ):
            raise Invalid(
                f"{validator.function.name}() of {validator.function.path} returned {type(answer).__name__}: return a "
                "DataFrame of wrong rows, or a list of texts"
            )
        examples: list[dict[str, str | None]] = [{"violation": _show(text)} for text in answer[:MOST_EXAMPLES]]
        return ValidatorResult(
            name=validator.name,
            severity=validator.severity,
            passed=not answer,
            violations=len(answer),
            examples=examples,
        )

    def _check_same(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        """Compare a sample with a full computation, chosen anew in each run, by the key or by whole rows."""
        if self.compute_full is None:
            words = "the run has computed all rows"
            return ValidatorResult(name=validator.name, severity=validator.severity, passed=True, detail=words)
        wrong = find_different(rows.audited(), self.compute_full(), self.key, float(validator.minimum or 100))
        return _build_result(validator, wrong.count(), wrong)

    def _check_references(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        name, other = quote_name(validator.columns[0]), validator.table_column or validator.columns[0]
        known = self.read_input(validator.table or "").select(F.col(quote_name(other)).alias("firn_known")).distinct()
        own = rows.changed.where(F.col(name).isNotNull())
        wrong = own.join(known, own[name] == known["firn_known"], "left_anti")
        return _build_result(validator, wrong.count(), wrong)

    def _check_unique(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        """Rows that share their values with a changed row. Nulls are equal to nothing."""
        names = [quote_name(name) for name in validator.columns]
        values = rows.changed.select(*names).dropna().distinct()
        counts = rows.audited().select(*names).join(values, validator.columns, "left_semi").groupBy(*names).count()
        repeated = counts.where(F.col("count") > 1)
        total = repeated.agg(F.sum("count")).first()
        return _build_result(validator, int((total[0] if total else None) or 0), repeated.drop("count"))

    def _check_row_count(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        count = rows.audited().count()
        low, high = (None if text is None else Decimal(text) for text in (validator.minimum, validator.maximum))
        value, words = Decimal(count), f"the table would have {count:,} rows"
        if validator.percent:
            before = rows.current().count()
            if before == 0:
                return ValidatorResult(name=validator.name, severity=validator.severity, passed=True, detail=words)
            value = Decimal(100) * (count - before) / before
            words = f"{words}, {value:+.1f} % of {before:,}"
        passed = (low is None or value >= low) and (high is None or value <= high)
        return ValidatorResult(name=validator.name, severity=validator.severity, passed=passed, detail=words)

    def _check_query(self, validator: Validator, rows: AuditedRows) -> ValidatorResult:
        query = write_query(validator)
        with ExitStack() as views:
            for name, frame in ((CHANGED, rows.changed), (AUDITED, rows.audited())):
                frame.createOrReplaceTempView(name)
                views.callback(self.spark.catalog.dropTempView, name)
            first = self.spark.sql(query).first()
        value = None if first is None else first[0]
        passed = _is_same(value, validator.expected or "")
        detail = f"it gives {_show(value)}, and {validator.expected} is expected"
        return ValidatorResult(
            name=validator.name, severity=validator.severity, passed=passed, detail=None if passed else detail
        )

    def _condition(self, validator: Validator) -> str:
        return write_condition(validator, [name.lower() for name in self.columns])


def _build_result(validator: Validator, violations: int, wrong: DataFrame) -> ValidatorResult:
    rows = wrong.limit(MOST_EXAMPLES).collect() if violations else []
    return ValidatorResult(
        name=validator.name,
        severity=validator.severity,
        passed=violations == 0,
        violations=violations,
        examples=[{name: _show(row[name]) for name in row.__fields__} for row in rows],
    )


def _describe(result: ValidatorResult) -> str:
    if result.violations is None:
        return f"{result.name} ({result.detail})"
    return f"{result.name} ({result.violations:,} {'row' if result.violations == 1 else 'rows'})"


def _show(value: Any) -> str | None:
    return None if value is None else str(value)[:_LONGEST_VALUE]


def _is_same(value: Any, expected: str) -> bool:
    if value is None or isinstance(value, bool):
        return str(value).lower() == expected.strip().lower() or (value is None and expected.strip().lower() == "null")
    try:
        return Decimal(str(value)) == Decimal(expected.strip())
    except InvalidOperation:
        return str(value) == expected
