"""The DAGs of the tests, as Airflow reads them from its folder."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from firn.integrations.airflow import FirnBackfillOperator, FirnPipelineOperator, FirnTableSensor, table_asset

pipeline, number = os.environ["PIPELINE"], os.environ["PIPELINE"].rpartition("_")[2]
quick: dict[str, Any] = {"pipeline": pipeline, "poll_seconds": 0.2, "patience_seconds": 20.0}
errors: list[str] = []
"""Those of tasks that have failed, or are tried again."""


def note(context: Any) -> None:
    errors.append(str(context["exception"]))


def mend(context: Any) -> None:
    """What a person does before the retry: give a directory its old name back."""
    note(context)
    if "HIDDEN" in os.environ:
        os.rename(os.environ["HIDDEN"], os.environ["MENDED"])  # noqa: PTH104 -- Airflow runs it without tests


noted: dict[str, Any] = {"on_failure_callback": note, "on_retry_callback": mend}
source = table_asset(f"raw.trip_{number}")

with DAG("deferred", schedule=None) as deferred:
    arrived = FirnTableSensor(
        task_id="arrived", table=f"raw.trip_{number}", fresh_within=timedelta(hours=1), poke_interval=1, deferrable=True
    )
    both = FirnPipelineOperator(
        task_id="both",
        tables=[f"mart.daily_{number}", f"mart.total_{number}"],
        inlets=[source],
        deferrable=True,
        **quick,
    )
    current = FirnTableSensor(
        task_id="current",
        table=f"mart.total_{number}",
        pipeline="{{ ti.xcom_pull(task_ids='both')[0].pipeline }}",
        newer_than="{{ dag_run.run_after }}",
        poke_interval=1,
        timeout=60,
        deferrable=True,
    )
    arrived >> both >> current

with DAG("blocking", schedule=None) as blocking:
    FirnPipelineOperator(task_id="daily", tables="daily_" + number, full=True, **quick)

limit = timedelta(seconds=float(os.environ.get("LIMIT_SECONDS", "12")))
with DAG("limited", schedule=None) as limited:
    FirnPipelineOperator(task_id="waits", tables=f"mart.daily_{number}", execution_timeout=limit, **quick)
with DAG("limited_deferred", schedule=None) as limited_deferred:
    FirnPipelineOperator(
        task_id="waits", tables=f"mart.daily_{number}", execution_timeout=limit, deferrable=True, **quick
    )
with DAG("unknown", schedule=None) as unknown:
    FirnPipelineOperator(task_id="unknown", **(quick | {"pipeline": "../jobs?x=1#ä"}), deferrable=True, retries=3)

again: dict[str, Any] = {**quick, **noted, "task_id": "again", "table": f"mart.daily_{number}"}
again_twice: dict[str, Any] = {**again, "retries": 1, "retry_delay": timedelta(0)}
days: dict[str, Any] = {"column": "day", "start": "{{ '2026-11-01' }}", "end": "{{ macros.ds_add('2026-11-01', 2) }}"}
with DAG("days_again", schedule=None) as days_again:
    FirnBackfillOperator(**again, **days, chunks=2, deferrable=True)
with DAG("driver_again", schedule=None) as driver_again:
    FirnBackfillOperator(**again, where="driver = 2", chunks=1)
with DAG("tried_twice", schedule=None) as tried_twice:
    FirnBackfillOperator(**again_twice, **days, chunks=1)
with DAG("impatient", schedule=None) as impatient:
    FirnBackfillOperator(**(again_twice | {"patience_seconds": 0}), **days, chunks=1)
with DAG("impatient_deferred", schedule=None) as impatient_deferred:
    FirnBackfillOperator(**(again_twice | {"patience_seconds": 0}), **days, chunks=1, deferrable=True)
