"""The task of a kind that needs no facts of its own."""

from __future__ import annotations

from pydantic import JsonValue

from firn.protocol.base import Task


class TableTask(Task):
    """The parts of the table's name, and the options of the job."""

    parts: list[str]
    options: dict[str, JsonValue] = {}
