"""Two ways to write a place that may be one place are taken for one."""

from __future__ import annotations

import pytest

from catalog.removal.ownership import explain_shared_location, list_used_locations
from catalog.removal.purge import UsedLocation
from tests.catalog.removal.directory_pairs import APART, MAY_BE_ONE


@pytest.mark.parametrize(("location", "other"), MAY_BE_ONE)
def test_places_that_may_be_one_meet(location: str, other: str) -> None:
    assert explain_shared_location([location], [UsedLocation("x", other)]) is not None
    assert explain_shared_location([other], [UsedLocation("x", location)]) is not None


@pytest.mark.parametrize(("location", "other"), APART)
def test_places_that_lie_apart_do_not_meet(location: str, other: str) -> None:
    assert explain_shared_location([location], [UsedLocation("x", other)]) is None


def test_every_location_in_the_facts_of_an_operation_is_found() -> None:
    facts = {"a": 1, "b": ["s3://x/1", {"c": ("/y/2", None)}], "d": "no place"}
    assert [location.location for location in list_used_locations("it", facts)] == ["s3://x/1", "/y/2"]
