"""OpenLineage events of pipelines' runs: https://openlineage.io/docs/spec/object-model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from catalog.jobs.job import Job, JobStatus
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from firn.protocol.pipelines import TableDefinition

Json = dict[str, Any]
_SPEC = "https://openlineage.io/spec"
_SCHEMA = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "SQLJobFacet": "1-1-0",
    "JobTypeJobFacet": "2-0-4",
    "ErrorMessageRunFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
}
LONGEST_ERROR = 2_000


class EventType(StrEnum):
    """The transition of a run."""

    START = "START"
    RUNNING = "RUNNING"  # the rows are computed, and wait for approval
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"  # a user has canceled the run, or discarded its rows


_ENDS = {
    JobStatus.SUCCEEDED: EventType.COMPLETE,
    JobStatus.FAILED: EventType.FAIL,
    JobStatus.CANCELED: EventType.ABORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfPipeline:
    """A run with the tables that it computes, its own first."""

    job: Job
    pipeline: Pipeline
    tables: Sequence[PipelineTable]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a user has decided about a held run."""

    is_published: bool
    at: datetime


def is_held(job: Job) -> bool:
    """Whether a run has ended, and its rows wait for approval, or have waited."""
    return job.status is JobStatus.SUCCEEDED and bool(job.result.get("held"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBuilder:
    """Builds events of one server. `namespace` is that of its jobs and tables, `version` that of Firn."""

    namespace: str
    version: str

    def build_start(self, run: RunOfPipeline, *, is_short: bool = False) -> Json:
        """The event of a run that an optimizer has begun. Short events have no SQL and no lineage of columns."""
        return self._build(run, EventType.START, run.job.leased_at or run.job.created_at, is_short=is_short)

    def build_end(self, run: RunOfPipeline, *, is_short: bool = False) -> Json:
        """The event of a run that has ended. One whose rows wait for approval goes on for others."""
        kind = EventType.RUNNING if is_held(run.job) else _ENDS[run.job.status]
        return self._build(run, kind, run.job.ended_at or run.job.created_at, is_short=is_short)

    def build_decision(self, run: RunOfPipeline, decision: Decision, *, is_short: bool = False) -> Json:
        """The event of a held run that a user has published or discarded."""
        kind = EventType.COMPLETE if decision.is_published else EventType.ABORT
        return self._build(run, kind, decision.at, is_short=is_short)

    def _build(self, run: RunOfPipeline, kind: EventType, at: datetime, *, is_short: bool) -> Json:
        job, catalog = run.job, run.pipeline.catalog
        inputs = dict.fromkeys(name for table in run.tables for name in table.definition.inputs)
        return {
            "eventType": str(kind),
            "eventTime": at.isoformat(),
            "producer": self._producer,
            "schemaURL": _SCHEMA,
            "run": {"runId": str(job.id), "facets": self._describe_error(job) if kind is EventType.FAIL else {}},
            "job": {
                "namespace": self.namespace,
                "name": f"{run.pipeline.name}.{job.table}",
                "facets": self._describe_job(run.tables[0].definition, is_short=is_short),
            },
            "inputs": [self._name(catalog, name) for name in inputs],
            "outputs": [self._describe_output(run, table, kind, is_short=is_short) for table in run.tables],
        }

    @property
    def _producer(self) -> str:
        return f"urn:firn:server:{self.version}"

    def _facet(self, schema: str, **fields: Any) -> Json:
        url = f"{_SPEC}/facets/{_FACETS[schema]}/{schema}.json#/$defs/{schema}"
        return {"_producer": self._producer, "_schemaURL": url, **fields}

    def _name(self, catalog: str, table: str) -> Json:
        return {"namespace": self.namespace, "name": f"{catalog}.{table}"}

    def _describe_error(self, job: Job) -> Json:
        message = (job.error or "the run failed")[:LONGEST_ERROR]
        return {"errorMessage": self._facet("ErrorMessageRunFacet", message=message, programmingLanguage="SQL")}

    def _describe_job(self, definition: TableDefinition, *, is_short: bool) -> Json:
        kind = self._facet("JobTypeJobFacet", processingType="BATCH", integration="FIRN", jobType="PIPELINE")
        sql = {} if is_short else {"sql": self._facet("SQLJobFacet", query=definition.query, dialect="spark")}
        return {"jobType": kind, **sql}

    def _describe_output(self, run: RunOfPipeline, table: PipelineTable, kind: EventType, *, is_short: bool) -> Json:
        catalog = run.pipeline.catalog
        facets = {} if is_short or not table.definition.lineage else {"columnLineage": self._trace(catalog, table)}
        output = {**self._name(catalog, str(table.name)), "facets": facets}
        written = None if kind is not EventType.COMPLETE else _count_written(run.job, table)
        if written is not None:
            statistics = self._facet("OutputStatisticsOutputDatasetFacet", rowCount=written)
            output["outputFacets"] = {"outputStatistics": statistics}
        return output

    def _trace(self, catalog: str, table: PipelineTable) -> Json:
        fields = {
            entry.column: {
                "inputFields": [
                    {**self._name(catalog, source.table), "field": source.column} for source in entry.sources
                ]
            }
            for entry in table.definition.lineage
        }
        return self._facet("ColumnLineageDatasetFacet", fields=fields)


def _count_written(job: Job, table: PipelineTable) -> int | None:
    """The rows that a run has written to a table; None if nobody counted them."""
    result: Mapping[str, Any] = job.result
    if job.table != table.name:
        result = result.get("together", {}).get(str(table.name), {})
    written = result.get("written")
    return written if isinstance(written, int) else None
