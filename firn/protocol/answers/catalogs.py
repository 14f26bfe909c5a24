"""Answers about catalogs."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.base import Out
from firn.protocol.descriptions import DescriptionOut


class MetastoreDownOut(Out):
    """A metastore that does not answer: since when, and why. Its listed tables are those of the last answer."""

    since: datetime
    reason: str


class CatalogOut(Out):
    """A catalog; `metastore_down` is about its metastore."""

    name: str
    warehouse: str
    metastore: str | None
    metastore_down: MetastoreDownOut | None
    description: DescriptionOut
    properties: dict[str, str]
    created_at: datetime
