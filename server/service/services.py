"""All services of one server, put together by server.app and handed to the routes."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.ports.store import Database
from server.service.commit import Committer
from server.service.keyed import KeyedTables
from server.service.metadata import MetadataFiles
from server.service.namespaces import Namespaces
from server.service.tables import Tables
from server.service.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the routes may call."""

    database: Database
    metadata: MetadataFiles
    namespaces: Namespaces
    tables: Tables
    views: Views
    keyed: KeyedTables
    committer: Committer
