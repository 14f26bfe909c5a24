"""Which keys are suggested for a Hive table, and what speaks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from catalog.hive.key_suggestions import (
    ColumnSample,
    Confidence,
    FileSample,
    KeyFacts,
    KeySuggestion,
    RankedKeys,
    RowSample,
    rank_keys,
    score_keys,
)


def suggestions(
    *columns: str,
    table: str = "orders",
    partition_columns: Sequence[str] = (),
    declared: Sequence[str] = (),
    samples: Sequence[FileSample] = (),
) -> tuple[KeySuggestion, ...]:
    return ranking(
        *columns, table=table, partition_columns=partition_columns, declared=declared, samples=samples
    ).suggestions


def ranking(
    *columns: str,
    table: str = "orders",
    partition_columns: Sequence[str] = (),
    declared: Sequence[str] = (),
    samples: Sequence[FileSample] = (),
    rows: Mapping[tuple[str, ...], RowSample] = MappingProxyType({}),
) -> RankedKeys:
    facts = KeyFacts(
        table=table,
        candidates=[*columns, *partition_columns],
        partition_columns=partition_columns,
        declared=declared,
        samples=samples,
    )
    return rank_keys(score_keys(facts), rows)


def sampled(rows: int = 1_000, files: int = 2, *, nulls: int = 0, repeated: int = 0) -> RowSample:
    return RowSample(rows=rows, files=files, null_rows=nulls, repeated_rows=repeated)


def keys(*columns: str, **facts: object) -> list[tuple[str, ...]]:
    return [suggestion.columns for suggestion in suggestions(*columns, **facts)]  # type: ignore[arg-type]


def file(rows: int, partition: str = "", **columns: tuple[int, int] | ColumnSample) -> FileSample:
    samples = {
        name: values
        if isinstance(values, ColumnSample)
        else ColumnSample(nulls=0, low=values[0], high=values[1], is_constant=values[0] == values[1])
        for name, values in columns.items()
    }
    return FileSample(partition=partition, rows=rows, columns=samples)


def test_a_declared_key_comes_first() -> None:
    first, second = suggestions("id", "line", "order_no", declared=["order_no", "line"])[:2]
    assert (first.columns, first.confidence) == (("order_no", "line"), Confidence.DECLARED)
    assert first.evidence == ("the metastore has it as the primary key",)
    assert second.columns == ("id",)


def test_a_declared_key_that_cannot_be_compared_is_not_suggested() -> None:
    assert keys("id", declared=["id", "price"]) == [("id",)]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("orders", "id"),
        ("orders", "order_id"),
        ("fact_orders", "ORDER_ID"),
        ("cities", "city_code"),
        ("trip", "tripid"),
    ],
)
def test_a_column_named_after_its_table_is_likely(table: str, name: str) -> None:
    (only,) = suggestions("amount", name, "status", table=table)
    assert (only.columns, only.confidence) == ((name,), Confidence.LIKELY)


def test_a_column_named_after_something_else_is_only_possible() -> None:
    first, second = suggestions("customer_id", "order_id")
    assert (first.columns, second.columns) == (("order_id",), ("customer_id",))
    assert second.confidence is Confidence.POSSIBLE


def test_columns_that_look_like_no_key_are_not_suggested() -> None:
    assert keys("amount", "status", "day", "paid", "idea", partition_columns=["part_id"]) == []


def test_never_more_than_three_of_many_columns() -> None:
    assert len(keys(*(f"c{number}_id" for number in range(100)))) == 3


def test_a_column_that_repeats_within_a_file_is_not_suggested() -> None:
    samples = [file(1_000, order_id=(1, 5_000), customer_id=(1, 40), store_id=(7, 7))]
    assert keys("customer_id", "order_id", "store_id", samples=samples) == [("order_id",)]


def test_a_column_with_nulls_is_not_suggested() -> None:
    samples = [file(10, id=(1, 10)), file(10, id=ColumnSample(nulls=1))]
    assert keys("id", samples=samples) == []


def test_values_that_fill_their_range_may_be_unique() -> None:
    assert keys("id", samples=[file(10, id=(1, 10))]) == [("id",)]
    assert keys("id", samples=[file(11, id=(1, 10))]) == []


def test_an_empty_file_says_nothing() -> None:
    assert keys("id", samples=[file(0, id=ColumnSample(nulls=0))]) == [("id",)]


def test_files_with_ranges_apart_speak_for_a_key() -> None:
    samples = [file(10, "day=1", a_id=(1, 90), b_id=(1, 90)), file(10, "day=2", a_id=(91, 200), b_id=(80, 200))]
    first, second = suggestions("b_id", "a_id", table="t", samples=samples)
    assert (first.columns, second.columns) == (("a_id",), ("b_id",))
    assert "files hold ranges apart from each other" in first.evidence
    assert first.evidence[:2] == ("its name ends like that of a key", "no nulls in 2 sampled files")


def test_partitions_that_share_a_range_ask_for_their_column_in_the_key() -> None:
    """A table that gets all its rows anew each day has every key once a day."""
    samples = [file(90, f"day={day}", id=(1, 100 + day)) for day in range(4)]
    first, second = suggestions("id", partition_columns=["day"], samples=samples)
    assert (first.columns, first.confidence) == (("id", "day"), Confidence.LIKELY)
    assert (second.columns, second.confidence) == (("id",), Confidence.POSSIBLE)
    assert "partitions share the same range of values" in second.evidence


def test_files_of_one_partition_may_share_a_range() -> None:
    samples = [file(90, "day=1", id=(1, 100)) for _ in range(4)]
    assert keys("id", partition_columns=["day"], samples=samples) == [("id",)]


def test_sampled_rows_without_a_duplicate_speak_for_a_key() -> None:
    first, second = ranking("a_id", "b_id", rows={("b_id",): sampled(8_000, 4)}).suggestions
    assert (first.columns, second.columns) == (("b_id",), ("a_id",))
    assert first.evidence[-1] == "no duplicate in 8,000 sampled rows of 4 files"
    assert first.confidence is Confidence.POSSIBLE


def test_few_unique_rows_make_no_likely_key_of_a_possible_one() -> None:
    samples = [file(10, "day=1", a_id=(1, 90)), file(10, "day=2", a_id=(91, 200))]
    (only,) = ranking("a_id", samples=samples, rows={("a_id",): sampled(20)}).suggestions
    assert only.confidence is Confidence.POSSIBLE


def test_a_duplicate_or_a_null_in_the_sample_disproves_a_key_and_the_next_takes_its_place() -> None:
    rows: dict[tuple[str, ...], RowSample] = {
        ("id",): sampled(1_000, 2, repeated=1),
        ("order_id",): sampled(1_000, 1, nulls=30, repeated=4),
        ("a_id",): sampled(),
    }
    keys = ranking("id", "order_id", "a_id", "b_id", rows=rows)
    assert [suggestion.columns for suggestion in keys.suggestions] == [("a_id",), ("b_id",)]
    assert [(key.columns, key.reason) for key in keys.disproved] == [
        (("id",), "1 of 1,000 sampled rows of 2 files repeats the key of another row"),
        (("order_id",), "30 of 1,000 sampled rows of 1 file have a null in it"),
    ]


def test_a_declared_key_with_duplicates_is_not_suggested_and_its_declaration_is_named() -> None:
    keys = ranking("no", "id", declared=["no"], rows={("no",): sampled(repeated=3)})
    assert [suggestion.columns for suggestion in keys.suggestions] == [("id",)]
    assert keys.disproved[0].reason == (
        "the metastore has it as the primary key, but 3 of 1,000 sampled rows of 2 files repeat the key of another row"
    )


def test_a_sample_of_one_row_or_none_says_nothing() -> None:
    for rows in (0, 1):
        keys = ranking("id", rows={("id",): sampled(rows, 1)})
        assert keys.disproved == ()
        assert keys.suggestions[0].evidence == ("its name is that of a key of this table",)
