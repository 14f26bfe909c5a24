"""The task of a run of a pipeline's table."""

from __future__ import annotations

from typing import Any

from firn.protocol.base import Message, Task
from firn.protocol.pipeline_code import CodeFile


class TargetTask(Message):
    """One table that a run computes.

    `definition` has the fields of `firn.protocol.pipelines.TableDefinition`. `target` are the parts of the table's name
    in the catalog.
    """

    definition: dict[str, Any]
    target: list[str]


class PipelineTask(Task):
    """What an optimizer needs to begin a run; the pins come later, with a request of their own.

    `targets` are the tables that the run computes and commits together, in order. `full` says that a user asked for all
    rows. `holds` says that the server keeps the commit until a user publishes it, and `is_held` that it has it already.
    `modules` are the Python files of the targets. With `beside`, the id of a backfill, the job computes chunks of it
    beside the live runs, and pins nothing.
    """

    pipeline: str
    version: int
    targets: list[TargetTask]
    deterministic: list[str]
    full: bool
    holds: bool = False
    is_held: bool = False
    modules: list[CodeFile] = []
    beside: str | None = None
    beside_seconds: int = 0
    """How long the job takes chunks."""
