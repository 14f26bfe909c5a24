"""One asset for each table of a pipeline, and one op for each run: tables that move together have the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster import (
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    DataVersion,
    Failure,
    In,
    MaterializeResult,
    MetadataValue,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Out,
    RetryPolicy,
)

from firn.client import DEFAULT_CATALOG, Client
from firn.errors import FirnError, Invalid, NotFound
from firn.integrations.dagster.pipelines import PipelineTable, PipelineTables
from firn.integrations.drivers import run_steps
from firn.integrations.runs import FACTS, POLL_SECONDS, PipelineRun, RunFailed, RunOrder, build_key, summarize_run
from firn.integrations.steps import PATIENCE_SECONDS
from firn.integrations.tables import full_name, split_table

_RETRY_TAG = "dagster/retry_number"
"""The tag of runs by which Dagster retries a run that has failed, or whose process has died."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How runs are waited for."""

    waits_for_approval: bool
    poll_seconds: float
    patience_seconds: float


def table_key(table: str, *, catalog: str = DEFAULT_CATALOG) -> AssetKey:
    """The key of a table's asset: catalog, namespace, table."""
    return AssetKey(split_table(table, catalog))


def firn_assets(
    pipeline: PipelineTables,
    *,
    resource_key: str = "firn",
    group_name: str | None = None,
    retry_policy: RetryPolicy | None = None,
    waits_for_approval: bool = True,
    poll_seconds: float = POLL_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[AssetsDefinition]:
    """An asset for each table of a pipeline, with the tables that it reads as its dependencies.

    Materializing an asset runs its table. `resource_key` is the name of the FirnResource. The step waits while the rows
    of its run wait for approval, or fails without `waits_for_approval`. The server may be away for `patience_seconds`.
    """
    settings = RunSettings(waits_for_approval, poll_seconds, patience_seconds)
    return [
        _build_assets(pipeline, tables, settings, resource_key, group_name, retry_policy)
        for tables in pipeline.list_sets()
    ]


def _build_assets(
    pipeline: PipelineTables,
    tables: Sequence[PipelineTable],
    settings: RunSettings,
    resource_key: str,
    group_name: str | None,
    retry_policy: RetryPolicy | None,
) -> AssetsDefinition:
    """The assets of one run. Names of tables may have any characters, and those of ops and outputs may not."""
    keys = {table.name: table_key(table.name, catalog=pipeline.catalog) for table in tables}
    inputs = {source: table_key(source, catalog=pipeline.catalog) for table in tables for source in table.inputs}
    outside = [key for key in dict.fromkeys(inputs.values()) if key not in keys.values()]
    run = OpDefinition(
        compute_fn=lambda context, _inputs: run_tables(context, pipeline, keys, settings, resource_key),
        name=name_op(pipeline.name, tables[0].name),
        description=f"Runs {', '.join(keys)} of the pipeline {pipeline.name}.",
        ins={f"input_{number}": In(Nothing) for number in range(len(outside))},
        outs={f"table_{number}": Out(Nothing) for number in range(len(tables))},
        required_resource_keys={resource_key},
        retry_policy=retry_policy,
    )
    return AssetsDefinition(
        node_def=run,
        keys_by_input_name={f"input_{number}": key for number, key in enumerate(outside)},
        keys_by_output_name={f"table_{number}": key for number, key in enumerate(keys.values())},
        specs=[_build_spec(table, keys[table.name], inputs, group_name) for table in tables],
    )


def _build_spec(
    table: PipelineTable, key: AssetKey, inputs: Mapping[str, AssetKey], group_name: str | None
) -> AssetSpec:
    deps = [inputs[source] for source in table.inputs if inputs[source] != key]  # it may fill columns of its own table
    return AssetSpec(
        key,
        deps=deps,
        group_name=group_name,
        kinds={"iceberg"},
        code_version=table.fingerprint,
        metadata={"query": MetadataValue.md(f"```sql\n{table.query}\n```")} if table.query else None,
    )


def name_op(pipeline: str, table: str) -> str:
    """A name for an op: letters, digits and underscores, and a digest that keeps two names apart."""
    readable = re.sub(r"[^A-Za-z0-9_]+", "_", f"{pipeline}__{table}")[:80]
    return f"firn__{readable}__{hashlib.sha256(f'{pipeline}#{table}'.encode()).hexdigest()[:8]}"


def run_tables(
    context: OpExecutionContext,
    pipeline: PipelineTables,
    keys: Mapping[str, AssetKey],
    settings: RunSettings,
    resource_key: str,
) -> Iterator[MaterializeResult]:
    """Run the tables, and give the facts of the run to each asset. A step that is interrupted cancels the run."""
    first = next(iter(keys))
    origin, attempts_before = find_origin(context)
    order = RunOrder(
        pipeline=pipeline.name,
        tables=(first,),
        key=build_key(origin, pipeline.name, first),
        attempt=attempts_before + context.retry_number + 1,
        waits_for_approval=settings.waits_for_approval,
        poll_seconds=settings.poll_seconds,
        patience_seconds=settings.patience_seconds,
    )
    with getattr(context.resources, resource_key).get_client() as client:
        run = PipelineRun(order)
        try:
            (done,) = run_steps(run.steps(), client.transport)
        except FirnError as error:
            raise build_failure(error) from error
        except BaseException:  # the user has terminated the run, or the process ends
            _cancel(context, client, run)
            raise
    facts = summarize_run(done)
    parts = {full_name(part["table"]): part for part in (facts, *facts["together"])}
    for name, key in keys.items():
        metadata = build_metadata({**facts, **parts.get(full_name(name), {})}, f"{client.url}/jobs/{done.job_id}")
        checkpoint = parts.get(full_name(name), {}).get("checkpoint")
        version = DataVersion(checkpoint) if isinstance(checkpoint, str) else None
        yield MaterializeResult(asset_key=key, metadata=metadata, data_version=version)


def find_origin(context: OpExecutionContext) -> tuple[str, int]:
    """The id of the run that this one repeats, or its own, and the number of attempts of this step before this run.

    Only a run that Dagster itself has started repeats another one: what a user starts again is new work.
    """
    run, attempts = context.run, 0
    step = context.get_step_execution_context().step.key
    while _RETRY_TAG in run.tags and run.parent_run_id is not None:
        parent = context.instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            break
        attempts += sum(stats.attempts or 0 for stats in context.instance.get_run_step_stats(parent.run_id, [step]))
        run = parent
    return run.run_id, attempts


def _cancel(context: OpExecutionContext, client: Client, run: PipelineRun) -> None:
    try:
        run_steps(run.cancel_steps(), client.transport)
    except FirnError as error:
        context.log.warning(f"the run could not be canceled: {error.message}")


def build_failure(error: FirnError) -> Failure:
    """The failure of a step, which no retry policy repeats if that would not help."""
    permanent = error.is_permanent if isinstance(error, RunFailed) else isinstance(error, (Invalid, NotFound))
    description = error.message if error.hint is None else f"{error.message} ({error.hint})"
    return Failure(description=description, allow_retries=not permanent)


def build_metadata(facts: Mapping[str, Any], url: str) -> dict[str, Any]:
    """What Dagster shows of a run: rows, predicted and real cost, and the job's page in Firn's console."""
    shown = {name: facts.get(name) for name in (*FACTS, "seconds", "predicted_seconds", "run_id")}
    return {"job": MetadataValue.url(url), **{name: value for name, value in shown.items() if value is not None}}
