"""Change data capture before it begins: topics of a connection, their records, and the plan of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Path, Query

from catalog.kafka.cdc_request import build_config
from catalog.kafka.cdc_sample import SampledRecord, measure
from firn.protocol.answers.cdc import (
    CdcPlanOut,
    CdcRecordOut,
    CdcSampleOut,
    CdcTablePlanOut,
    CdcTopicPlanOut,
    TopicsOut,
)
from firn.protocol.cdc.plan import TablePlan, TopicPlan
from firn.protocol.cdc.sync_file import write_config
from firn.protocol.cdc_plans import CdcPlanRequest
from server.api.connections import NameDep
from server.api.deps import CatalogDep, ServicesDep
from server.api.errors import refusals

MOST_TOPICS = 500
_LONGEST_TEXT, _LONGEST_VALUE, _MOST_VALUES = 2_000, 200, 100
router = APIRouter(tags=["change data capture"])


@router.get("/connections/{connection}/topics", summary="List topics", responses=refusals(403, 404, 503))
def list_topics(
    services: ServicesDep,
    connection: NameDep,
    search: Annotated[str, Query(max_length=250, description="part of the names")] = "",
) -> TopicsOut:
    """List the topics that the connection's user sees, without those of Kafka itself: 500 at most."""
    topics = [name for name in services.cdc_planning.list_topics(connection) if search in name]
    return TopicsOut(topics=topics[:MOST_TOPICS], more=max(len(topics) - MOST_TOPICS, 0))


@router.get(
    "/connections/{connection}/topics/{topic}/sample", summary="Look at a topic", responses=refusals(400, 403, 404, 503)
)
def sample_topic(
    services: ServicesDep,
    connection: NameDep,
    topic: Annotated[str, Path(max_length=250, description="topic")],
    format: Annotated[str | None, Query(description="format of the records; else the one that fits best")] = None,
) -> CdcSampleOut:
    """Show some of the oldest and newest records, and what they tell in a format of change data capture."""
    sample = services.cdc_planning.sample(connection, topic, format)
    return CdcSampleOut(topic=topic, format=sample.format, records=[*map(_build_record_out, sample.records)])


@router.post("/catalogs/{catalog}/cdc/plan", summary="Plan change data capture", responses=refusals(400, 403, 404, 503))
def plan(services: ServicesDep, catalog: CatalogDep, body: CdcPlanRequest) -> CdcPlanOut:
    """Show what `firn cdc run` would do with a configuration, by a sample of each topic, and write its file.

    It changes nothing.
    """
    config = build_config(body)
    planned = services.cdc_planning.plan(catalog, config)
    topics = [*map(_build_topic_out, planned.topics)]
    return CdcPlanOut(file=write_config(config), topics=topics, more_topics=planned.more_topics)


def _build_topic_out(plan: TopicPlan) -> CdcTopicPlanOut:
    tables = [*map(_build_table_out, plan.tables)]
    return CdcTopicPlanOut(
        topic=plan.topic, records=plan.records, tables=tables, left_out=[*plan.left_out], bad={**plan.bad}
    )


def _build_table_out(plan: TablePlan) -> CdcTablePlanOut:
    return CdcTablePlanOut(
        table=plan.table,
        action=plan.action,
        sources=[*plan.sources],
        new_sources=[*plan.new_sources],
        primary_key=[*plan.primary_key],
        columns={**plan.columns},
        problem=plan.problem,
        lacks_values=plan.lacks_values,
    )


def _build_record_out(sampled: SampledRecord) -> CdcRecordOut:
    record, row = sampled.record, sampled.row
    return CdcRecordOut(
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        bytes=measure(record),
        key=_show(record.key),
        value=_show(record.value),
        source=sampled.source,
        kind=sampled.kind,
        op=sampled.op,
        row=None if row is None else _cut_row(row),
        problem=sampled.problem,
    )


def _cut_row(row: Mapping[str, str | None]) -> dict[str, str | None]:
    return {_cut(name): None if value is None else _cut(value) for name, value in islice(row.items(), _MOST_VALUES)}


def _show(data: bytes | None) -> str | None:
    """The beginning of a text; other bytes as U+FFFD."""
    return None if data is None else data[:_LONGEST_TEXT].decode(errors="replace")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
