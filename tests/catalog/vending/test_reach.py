"""Which places of S3 a location stands for, and which of them are handed out."""

from __future__ import annotations

import pytest

from catalog.vending.reach import Reach, S3Place, common_prefix, own_locations, why_outside
from catalog.vending.storage import StorageConfig


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


def test_data_and_metadata_may_lie_elsewhere() -> None:
    metadata = {
        "location": "s3://lake/wh/t",
        "properties": {"write.data.path": "s3://fast/t/", "write.metadata.path": "s3://lake/wh/t/meta"},
    }
    assert own_locations(metadata) == ("s3://lake/wh/t", "s3://fast/t")


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
    assert common_prefix(locations) == prefix
    assert all(location.startswith(prefix) for location in locations)


@pytest.mark.parametrize(
    ("location", "refused"),
    [
        ("s3://lake/wh/db/t", False),
        ("s3a://lake/wh/db/t", False),
        ("s3://fast/tables/t", False),
        ("s3://lake/wh", True),
        ("s3://lake/wh2/t", True),
        ("s3://lake", True),
        ("s3://secrets/t", True),
        ("s3://fast/tables", True),
        ("s3://lake/wh/../x", True),
    ],
)
def test_only_what_lies_below_the_warehouse_or_an_allowed_place_is_handed_out(location: str, *, refused: bool) -> None:
    storage = StorageConfig(allowed=("s3://fast/tables/",))
    assert (why_outside([location], warehouse="s3://lake/wh", storage=storage) is not None) is refused
