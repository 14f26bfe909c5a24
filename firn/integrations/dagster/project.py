"""The tables of a pipeline's folder, for definitions that load without a server (`firn[pipelines]`)."""

from __future__ import annotations

from pathlib import Path

from firn.client import DEFAULT_CATALOG
from firn.integrations.dagster.pipelines import PipelineTable, PipelineTables
from firn.pipelines.folder import read_folder
from firn.pipelines.graph import read_inputs

_NAMESPACE = "default"
"""The namespace of names without one, as `firn pipeline put` has it."""


def read_project(folder: str | Path, *, catalog: str = DEFAULT_CATALOG) -> PipelineTables:
    """The tables of a folder that `firn pipeline put` stores. Raises the first problem of the folder."""
    pipeline = read_folder(Path(folder), namespace=_NAMESPACE)
    if pipeline.problems:
        raise pipeline.problems[0]
    tables = (
        PipelineTable(
            name=definition.name,
            inputs=tuple(read_inputs(definition)),
            together=definition.consistent,
            query=definition.source or definition.query.sql("spark"),
        )
        for definition in pipeline.definitions.values()
    )
    return PipelineTables(pipeline.name, pipeline.catalog or catalog, tuple(tables))
