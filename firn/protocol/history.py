"""The history of a table."""

from __future__ import annotations

from enum import StrEnum


class Topic(StrEnum):
    """The subject of a commit; a reader can filter the history by it."""

    DATA = "data"
    SCHEMA = "schema"
    LAYOUT = "layout"
    PROPERTIES = "properties"
    REFS = "refs"
    MAINTENANCE = "maintenance"
    LIFE = "life"
