"""Runs one DAG of the tests without a scheduler, and prints the states, results and asset events of its tasks."""

from __future__ import annotations

import json
import sys

import airflow_dags
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

run = getattr(airflow_dags, sys.argv[1]).test()
with create_session() as session:
    tasks = session.scalars(select(TaskInstance).where(TaskInstance.run_id == run.run_id)).all()
    values = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id)).all()
    events = session.execute(
        select(AssetModel.uri, AssetEvent.extra)
        .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        .where(AssetEvent.source_run_id == run.run_id)
    ).all()
    result = {
        "state": str(run.state),
        "tasks": {task.task_id: [str(task.state), task.try_number] for task in tasks},
        "values": {value.task_id: XComModel.deserialize_value(value) for value in values},
        "events": dict(events),
    }
print("RESULT " + json.dumps(result, default=str))  # noqa: T201 -- the test reads it
