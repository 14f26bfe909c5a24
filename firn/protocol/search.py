"""The answer of a search over all catalogs (docs/search.md)."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Out


class SearchKind(StrEnum):
    """The kinds of objects that a search finds."""

    TABLE = "table"
    VIEW = "view"
    HIVE_TABLE = "hive_table"
    NAMESPACE = "namespace"
    CATALOG = "catalog"
    PIPELINE = "pipeline"
    QUERY = "query"
    JOB = "job"
    GROUP = "group"
    SETTING = "setting"


class SearchPart(StrEnum):
    """The part of an object that matches."""

    NAME = "name"
    COLUMN = "column"
    COMMENT = "comment"
    LABEL = "label"
    OWNER = "owner"
    STATEMENT = "statement"
    DESCRIPTION = "description"
    ID = "id"
    TABLE = "table"


class SearchHit(Out):
    """An object that matches. `text` says for people what matches besides the name: `column amount: "gross"`."""

    kind: SearchKind
    catalog: str | None
    """None for objects that belong to no catalog."""
    name: str
    """The full name, or the name of a catalog, pipeline, saved query, group or setting; a job has that of its table."""
    id: str | None = None
    """The id of a job or a saved query."""
    part: SearchPart
    column: str | None = None
    text: str = ""
    detail: str = ""
    """What is known of it besides: `keyed`, the format of a Hive table, or the kind and state of a job."""


class SearchOut(Out):
    """The hits of a search, the best first within each kind."""

    hits: list[SearchHit]
