"""Runs DAGs of the tests without a scheduler, and prints the states, results and asset events of their tasks."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

import airflow_dags
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

SAME_TIME = {"logical_date": datetime(2026, 11, 28, tzinfo=UTC), "run_after": datetime(2026, 11, 28, tzinfo=UTC)}


def run(name: str) -> dict[str, Any]:
    """Run a DAG. With SAME_RUN it is the same run each time, as if Airflow went on after its worker's death."""
    airflow_dags.errors.clear()
    done = getattr(airflow_dags, name).test(**SAME_TIME if "SAME_RUN" in os.environ else {})
    with create_session() as session:
        tasks = session.scalars(select(TaskInstance).where(TaskInstance.run_id == done.run_id)).all()
        values = session.scalars(select(XComModel).where(XComModel.run_id == done.run_id)).all()
        updated = select(AssetModel.uri, AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        events = session.execute(updated.where(AssetEvent.source_run_id == done.run_id)).all()
        return {
            "state": str(done.state),
            "errors": list(airflow_dags.errors),
            "tasks": {task.task_id: [str(task.state), task.try_number] for task in tasks},
            "values": {value.task_id: XComModel.deserialize_value(value) for value in values},
            "events": {event.uri: event.extra for event in events},
        }


print("RESULT " + json.dumps([run(name) for name in sys.argv[1:]], default=str))  # noqa: T201 -- the test reads it
