"""`firn trends`: tables, namespaces and catalogs by name, and what is printed of them."""

from __future__ import annotations

import pytest

import firn
from firn.cli.trends import draw_line
from firn.errors import Invalid, NotFound
from firn.protocol.trends import Measure
from tests.command_line import Command

ID = [{"name": "id", "type": "long"}]


def test_a_name_is_a_table_a_namespace_or_a_catalog(run: Command, client: firn.Client) -> None:
    client.tables.create("trend_names.eu.t", ID)
    for name in (
        "trend_names.eu.t",
        "lake.trend_names.eu.t",
        "trend_names",
        "trend_names.eu",
        "lake.trend_names",
        "lake",
    ):
        assert run("trends", name).code == 0, name
    assert run("trends").code == 0
    trend = client.trends("trend_names.eu.t", measures=[Measure.ROWS], since="1 d")
    assert [series.measure for series in trend.series] == [Measure.ROWS]
    answer = run("trends", "trend_names", "--measure", "rows", "--measure", "health", "--since", "30 d", "--json").json
    assert [series["measure"] for series in answer["series"]] == ["rows", "health"]
    assert len(answer["times"]) == len(answer["series"][0]["values"])
    with pytest.raises(NotFound, match="trend_names"):
        client.trends("trend_names.x")


@pytest.mark.parametrize("since", ["soon", "7", "2099-01-01T00:00:00Z", "x" * 80])
def test_a_begin_that_makes_no_sense_is_refused(run: Command, client: firn.Client, since: str) -> None:
    with pytest.raises(Invalid):
        client.trends(since=since)
    assert run("trends", "--since", since).code == 2


def test_a_line_has_a_bar_for_each_value_and_gaps() -> None:
    assert draw_line([0, 1, None, 7, 7]) == "▁▂ ██"
    assert draw_line([5, 5]) == "▁▁"
    assert draw_line([]) == draw_line([None]).strip() == ""
    assert len(draw_line(list(range(120)))) == 40
