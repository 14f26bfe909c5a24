"""Which columns are probably the key of a Hive table: judged by what is declared, by names, and by samples.

Nothing here proves a key: only reading every row can show that no value repeats. Samples disprove keys. A footer shows
that a column repeats if a file has 20 rows, and values between 1 and 10. Sampled rows show duplicates and nulls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

MOST = 3
"""Suggestions that people see: more would be a list of columns, which they have already."""

_OWN_NAMES = frozenset({"id", "uuid", "guid", "pk", "row_id", "rowid", "record_id", "primary_key"})
_OWN_SUFFIXES = ("_id", "id", "_key", "_uuid", "_guid", "_no", "_nr", "_number", "_code")
_SUFFIX = re.compile(r".+_(id|key|uuid|guid|pk|no|nr|number|code)")

_DECLARED, _OWN_NAME, _OTHER_NAME = 100, 40, 20
_DISJOINT, _SHARED = 10, 15
"""What it adds that files hold ranges apart from each other, and what it takes that partitions share a range."""
_UNREPEATED = 5
"""What it adds that sampled rows repeat no key. It never makes a likely key of a possible one: few rows show little."""

MOST_SAMPLED = 6
"""Keys whose rows are sampled: those that become suggestions, and some more to take the place of disproved ones."""


class Confidence(StrEnum):
    """How much speaks for a key."""

    DECLARED = "declared"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSample:
    """What one file's footer says of a column. `low` and `high` are None where values have no distance, as texts."""

    nulls: int | None
    low: int | None = None
    high: int | None = None
    is_constant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSample:
    """What one file's footer says, by column."""

    partition: str
    rows: int
    columns: Mapping[str, ColumnSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySuggestion:
    """A key to begin with, and what speaks for it; `evidence` are clauses that people read."""

    columns: tuple[str, ...]
    confidence: Confidence
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisprovedKey:
    """A key that a look at names or at the metastore would suggest, and why it is none."""

    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSample:
    """What the first rows of some files say of a key."""

    rows: int
    files: int
    null_rows: int
    """Rows with a null in a column of the key."""
    repeated_rows: int
    """Rows whose key another sampled row has, without one row of each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedKeys:
    """The most probable keys, the best first, and those that samples of rows disproved."""

    suggestions: tuple[KeySuggestion, ...] = ()
    disproved: tuple[DisprovedKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """What suggestions are made from."""

    table: str
    """The table's name, without its database."""
    candidates: Sequence[str]
    """The columns whose values can be compared exactly."""
    partition_columns: Sequence[str]
    declared: Sequence[str]
    """The columns of the primary key in the metastore, which Hive does not enforce."""
    samples: Sequence[FileSample]


@dataclass(frozen=True, slots=True)
class ScoredKey:
    """A key with its score; the key with the highest score is suggested first."""

    score: int
    suggestion: KeySuggestion


def score_keys(facts: KeyFacts) -> list[ScoredKey]:
    """Score the keys that the metastore, names and footers speak for, the best first."""
    scored = [scored for column in facts.candidates for scored in _score(facts, column)]
    if facts.declared and set(facts.declared) <= {*facts.candidates}:
        declared = _suggest(facts.declared, Confidence.DECLARED, ["the metastore has it as the primary key"])
        others = [entry for entry in scored if entry.suggestion.columns != declared.columns]
        scored = [ScoredKey(_DECLARED, declared), *others]
    return sorted(scored, key=lambda entry: -entry.score)


def rank_keys(scored: Sequence[ScoredKey], samples: Mapping[tuple[str, ...], RowSample]) -> RankedKeys:
    """Rank the keys with what samples of rows say of them; keys without a sample keep their scores."""
    kept, disproved = list[ScoredKey](), list[DisprovedKey]()
    for entry in scored:
        suggestion = entry.suggestion
        sample = samples.get(suggestion.columns)
        if sample is None or not sample.rows:
            kept.append(entry)
        elif (reason := find_reason_against(sample)) is not None:
            is_declared = suggestion.confidence is Confidence.DECLARED
            reason = f"{suggestion.evidence[0]}, but {reason}" if is_declared else reason
            disproved.append(DisprovedKey(columns=suggestion.columns, reason=reason))
        elif sample.rows > 1:
            supported = replace(suggestion, evidence=(*suggestion.evidence, describe_support(sample)))
            kept.append(ScoredKey(entry.score + _UNREPEATED, supported))
        else:
            kept.append(entry)
    kept.sort(key=lambda entry: -entry.score)
    return RankedKeys(suggestions=tuple(entry.suggestion for entry in kept[:MOST]), disproved=tuple(disproved[:MOST]))


def find_reason_against(sample: RowSample) -> str | None:
    """What a sample says against a key; None if it says nothing against it."""
    if sample.null_rows:
        return f"{sample.null_rows:,} of {_describe_extent(sample)} {_have(sample.null_rows)} a null in it"
    if sample.repeated_rows:
        verb = "repeats" if sample.repeated_rows == 1 else "repeat"
        return f"{sample.repeated_rows:,} of {_describe_extent(sample)} {verb} the key of another row"
    return None


def describe_support(sample: RowSample) -> str:
    """What a sample without nulls and duplicates says for a key."""
    return f"no duplicate in {_describe_extent(sample)}"


def _have(rows: int) -> str:
    return "has" if rows == 1 else "have"


def _describe_extent(sample: RowSample) -> str:
    rows = "1 sampled row" if sample.rows == 1 else f"{sample.rows:,} sampled rows"
    return f"{rows} of {sample.files:,} {'file' if sample.files == 1 else 'files'}"


def find_repeat(samples: Iterable[FileSample], column: str) -> str | None:
    """Why a column alone cannot be the key, as far as footers show; None if they do not."""
    for sample in samples:
        values = sample.columns.get(column)
        if values is None or sample.rows == 0:
            continue
        if values.nulls:
            return f"{values.nulls:,} of {sample.rows:,} rows of a file have no value"
        if values.is_constant and sample.rows > 1:
            return f"all {sample.rows:,} rows of a file have the same value"
        if values.low is not None and values.high is not None and values.high - values.low + 1 < sample.rows:
            return f"a file has {sample.rows:,} rows, and {values.high - values.low + 1:,} possible values"
    return None


def _score(facts: KeyFacts, column: str) -> Iterator[ScoredKey]:
    """Score a column whose name looks like a key, alone and, if partitions share its values, with their columns."""
    score, name = _judge_name(facts.table, column)
    if not score or column in facts.partition_columns or find_repeat(facts.samples, column) is not None:
        return
    evidence = [name, *_describe_sample(facts.samples, column)]
    ranges = _Ranges.of(facts.samples, column)
    if not ranges.is_shared:
        if ranges.is_disjoint:
            score, evidence = score + _DISJOINT, [*evidence, "files hold ranges apart from each other"]
        yield ScoredKey(score, _suggest([column], _grade(score), evidence))
        return
    shared = "partitions share the same range of values"
    yield ScoredKey(score - _SHARED, _suggest([column], Confidence.POSSIBLE, [*evidence, shared]))
    if facts.partition_columns and set(facts.partition_columns) <= {*facts.candidates}:
        together = f"{shared}, so the same value may come once in each"
        key = [column, *facts.partition_columns]
        yield ScoredKey(score, _suggest(key, _grade(score), [*evidence, together]))


def _judge_name(table: str, column: str) -> tuple[int, str]:
    name = column.lower()
    own = {f"{word}{suffix}" for word in _name_row(table.lower()) for suffix in _OWN_SUFFIXES}
    if name in _OWN_NAMES or name in own:
        return _OWN_NAME, "its name is that of a key of this table"
    return (_OTHER_NAME, "its name ends like that of a key") if _SUFFIX.fullmatch(name) else (0, "")


def _name_row(table: str) -> set[str]:
    """Names of one row of a table: `order` for `orders`, also for `fact_orders`."""
    words = {table, table.rpartition("_")[2]}
    singular = {word.removesuffix("s") for word in words} | {f"{word[:-3]}y" for word in words if word.endswith("ies")}
    return {word for word in words | singular if word}


def _describe_sample(samples: Sequence[FileSample], column: str) -> list[str]:
    known = [sample.columns[column] for sample in samples if column in sample.columns]
    without_nulls = sum(values.nulls == 0 for values in known)
    return (
        [f"no nulls in {without_nulls:,} sampled {'file' if without_nulls == 1 else 'files'}"] if without_nulls else []
    )


@dataclass(frozen=True, slots=True)
class _Ranges:
    """How the ranges of a column lie in different files."""

    is_disjoint: bool
    is_shared: bool
    """Whether files of different partitions have mostly the same range."""

    @classmethod
    def of(cls, samples: Sequence[FileSample], column: str) -> _Ranges:
        ranges = [
            (sample.partition, values.low, values.high)
            for sample in samples
            if (values := sample.columns.get(column)) is not None and values.low is not None and values.high is not None
        ]
        pairs = list(combinations(ranges, 2))
        overlaps = [(first[0] != second[0], _overlap(first[1:], second[1:])) for first, second in pairs]
        apart = [share for is_across, share in overlaps if is_across]
        return cls(
            is_disjoint=bool(overlaps) and not any(share for _, share in overlaps),
            is_shared=bool(apart) and sum(share > 1 / 2 for share in apart) > len(apart) / 2,
        )


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The share of the smaller range that lies in the other."""
    common = min(first[1], second[1]) - max(first[0], second[0]) + 1
    smaller = min(first[1] - first[0], second[1] - second[0]) + 1
    return max(common, 0) / smaller


def _grade(score: int) -> Confidence:
    return Confidence.LIKELY if score >= _OWN_NAME else Confidence.POSSIBLE


def _suggest(columns: Collection[str], confidence: Confidence, evidence: Sequence[str]) -> KeySuggestion:
    return KeySuggestion(columns=tuple(columns), confidence=confidence, evidence=tuple(evidence))
