"""The history of a table."""

from __future__ import annotations

from enum import StrEnum


class Topic(StrEnum):
    """What a commit was about: by these a history is filtered."""

    DATA = "data"
    SCHEMA = "schema"
    LAYOUT = "layout"
    PROPERTIES = "properties"
    REFS = "refs"
    MAINTENANCE = "maintenance"
    LIFE = "life"
