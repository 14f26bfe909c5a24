"""Dagster: the tables of a pipeline as assets, and a sensor for commits of others (`firn[dagster]`).

    firn = FirnResource(url="http://127.0.0.1:8630")
    Definitions(assets=firn_assets(load_pipeline(firn, "orders")), resources={"firn": firn})

Nothing here imports Dagster before a name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.errors import FirnError
from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.integrations.dagster.assets import firn_assets, table_key
    from firn.integrations.dagster.pipelines import PipelineTables, load_pipeline
    from firn.integrations.dagster.project import read_project
    from firn.integrations.dagster.resource import FirnResource
    from firn.integrations.dagster.sensors import firn_commit_sensor

__all__ = [
    "FirnResource",
    "PipelineTables",
    "firn_assets",
    "firn_commit_sensor",
    "load_pipeline",
    "read_project",
    "table_key",
]

_MODULES = {
    "firn.integrations.dagster.assets": ("firn_assets", "table_key"),
    "firn.integrations.dagster.pipelines": ("PipelineTables", "load_pipeline"),
    "firn.integrations.dagster.project": ("read_project",),
    "firn.integrations.dagster.resource": ("FirnResource",),
    "firn.integrations.dagster.sensors": ("firn_commit_sensor",),
}


def __getattr__(name: str) -> object:
    """Load a name on first use. FirnError if it needs an extra that is not installed."""
    try:
        return load_name(__name__, _MODULES, name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("sqlglot", "yaml", "jinja2"):
            raise
        raise FirnError(f"{error.name} is not installed", hint="pip install 'firn[dagster,pipelines]'") from error
