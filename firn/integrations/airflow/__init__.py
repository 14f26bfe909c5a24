"""Airflow: operators for runs and backfills of pipelines, a sensor for tables, and tables as assets (`firn[airflow]`).

    FirnPipelineOperator(task_id="daily", pipeline="orders", tables=["mart.daily"], deferrable=True)
    FirnTableSensor(task_id="orders", table="shop.orders", newer_than="{{ data_interval_end }}", deferrable=True)

Nothing here imports Airflow before a name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.integrations.airflow.assets import table_asset
    from firn.integrations.airflow.hook import FirnHook
    from firn.integrations.airflow.operators import FirnBackfillOperator, FirnPipelineOperator
    from firn.integrations.airflow.sensors import FirnTableSensor
    from firn.integrations.airflow.triggers import BackfillTrigger, PipelineRunTrigger, TableTrigger

__all__ = [
    "BackfillTrigger",
    "FirnBackfillOperator",
    "FirnHook",
    "FirnPipelineOperator",
    "FirnTableSensor",
    "PipelineRunTrigger",
    "TableTrigger",
    "table_asset",
]

_MODULES = {
    "firn.integrations.airflow.assets": ("table_asset",),
    "firn.integrations.airflow.hook": ("FirnHook",),
    "firn.integrations.airflow.operators": ("FirnBackfillOperator", "FirnPipelineOperator"),
    "firn.integrations.airflow.sensors": ("FirnTableSensor",),
    "firn.integrations.airflow.triggers": ("BackfillTrigger", "PipelineRunTrigger", "TableTrigger"),
}


def __getattr__(name: str) -> object:
    """Load a name on first use."""
    return load_name(__name__, _MODULES, name)
