"""The graph of a pipeline: how far each table is behind, and because of which input."""

from __future__ import annotations

from typing import Any

from firn.protocol.pipeline_graph import GraphOut
from server.api.pipeline_graph import show_graph
from tests.server.lake import PLAIN, appended
from tests.server.service.pipelines.stage import DEFINED, RANKED, PipelineStage


def graph(stage: PipelineStage) -> GraphOut:
    services: Any = stage.lake.services
    return show_graph(services, "orders")


def test_a_commit_to_one_input_is_on_its_edge(stage: PipelineStage) -> None:
    stage.put({**DEFINED, "trigger": {"kind": "fresh", "fresh_within_seconds": 900}}, RANKED)
    stage.create_target()
    checkpoint = stage.build()
    before = graph(stage)
    assert [node.table for node in before.nodes] == ["db.plain", "db.orders", "mart.daily", "mart.rank"]
    daily, rank = before.nodes[2:]
    assert (daily.state, daily.computed_at, daily.lag_seconds) == ("current", checkpoint.pinned_at, 0)
    assert (daily.target_seconds, rank.lag_seconds, rank.computed_at) == (900, None, None)
    assert [edge.has_changes for edge in before.edges] == [False, False, None]
    stage.lake.commit(appended(PLAIN, stage.lake.metadata(PLAIN)))
    after = graph(stage)
    edges = {edge.source: edge for edge in after.edges if edge.target == "mart.daily"}
    assert (edges["db.plain"].has_changes, edges["db.orders"].has_changes) == (True, False)
    assert edges["db.plain"].changed_at is not None
    assert edges["db.plain"].lag_seconds == (after.at - edges["db.plain"].changed_at).total_seconds()
    assert after.nodes[2].lag_seconds == edges["db.plain"].lag_seconds
