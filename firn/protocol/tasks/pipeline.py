"""The task of a run of a pipeline's table."""

from __future__ import annotations

from typing import Any

from firn.protocol.base import Task


class PipelineTask(Task):
    """What an optimizer needs to begin a run; the pins come later, with a request of their own.

    `definition` has the fields of `firn.protocol.pipelines.TableDefinition`. `target` are the parts of the table's name
    in the catalog. `full` says that a user asked for all rows.
    """

    pipeline: str
    version: int
    definition: dict[str, Any]
    deterministic: list[str]
    target: list[str]
    full: bool
