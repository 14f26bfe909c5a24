"""Which places of S3 a location stands for, and which of them are handed out."""

from __future__ import annotations

import pytest

from catalog.credentials.reach import Reach, S3Place, find_common_prefix


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("s3://lake/wh/t", S3Place("lake", "wh/t")),
        ("s3a://lake/wh/t/", S3Place("lake", "wh/t")),
        ("s3://lake/wh/ü b%2F", S3Place("lake", "wh/ü b%2F")),
        ("s3://lake", None),
        ("s3://lake/", None),
        ("s3://lake/wh//t", None),
        ("s3://lake/wh/../t", None),
        ("s3://lake/./t", None),
        ("s3://lake/wh\\t", None),
        ("s3://lake/wh\n/t", None),
        ("s3://user@lake/t", None),
        ("s3://la*ke/t", None),
        ("file:///wh/t", None),
        ("gs://lake/wh/t", None),
    ],
)
def test_a_location_is_a_place_when_everybody_reads_it_the_same_way(location: str, place: S3Place | None) -> None:
    assert S3Place.of(location) == place


def test_a_table_does_not_hold_what_is_called_alike() -> None:
    reach = Reach.to([S3Place("lake", "wh/orders")], write=True)
    assert reach.may("lake", "wh/orders/data/a", write=True)
    assert not reach.may("lake", "wh/orders2/a", write=False)
    assert not reach.may("lake", "wh/orders", write=False)
    assert not reach.may("other", "wh/orders/a", write=False)


@pytest.mark.parametrize(
    ("locations", "prefix"),
    [
        (["s3://lake/wh/t"], "s3://lake/wh/t"),
        (["s3://lake/wh/t", "s3://lake/data/t"], "s3://lake/"),
        (["s3://lake/wh/t1", "s3://lake/wh/t2"], "s3://lake/wh"),
        (["s3://lake/wh/t", "s3://fast/t"], "s3://"),
        (["s3://lake/wh/t", "s3a://lake/t"], "s3"),
    ],
)
def test_one_prefix_holds_all_of_a_tables_places(locations: list[str], prefix: str) -> None:
    assert find_common_prefix(locations) == prefix
    assert all(location.startswith(prefix) for location in locations)
