"""How a table's files lie, counted in manifests that the tests have written."""

from __future__ import annotations

import pytest

from firn.protocol.health import HealthPart
from tests.factories import LAKE
from tests.server.lake import ORDERS, PLAIN, Lake
from tests.server.service.dry_runs.day_tables import MIB, TODAY, WHOLE, a_file, make, write


def test_skew_is_the_largest_partition_against_the_average(lake: Lake) -> None:
    make(lake)
    write(lake, [*(a_file(TODAY) for _ in range(6)), a_file(TODAY - 1), a_file(TODAY - 2, size=2 * MIB)])
    assert lake.services.partition_layouts.measure_skew(LAKE, PLAIN) == pytest.approx(2.0)


def test_there_is_no_skew_without_several_partitions(lake: Lake) -> None:
    make(lake, WHOLE)
    assert lake.services.partition_layouts.measure_skew(LAKE, PLAIN) is None
    lake.create_keyed()
    assert lake.services.partition_layouts.measure_skew(LAKE, ORDERS) is None


def test_health_tells_the_skew_of_a_table_that_is_measured(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY, size=7 * MIB), *(a_file(TODAY - day) for day in range(1, 8))])
    path = f"/api/v1/catalogs/lake/tables/{PLAIN}/health"
    plain, measured = (lake.client.get(path, params=params).json() for params in ({}, {"measure": "true"}))
    skew = next(health_part for health_part in measured["parts"] if health_part["part"] == HealthPart.SKEW)
    assert (skew["points_lost"], skew["max_points"]) == (5.0, 10)
    assert skew["detail"] == "the largest partition has 4.0 times the average"
    assert measured["score"] == plain["score"] - 5
