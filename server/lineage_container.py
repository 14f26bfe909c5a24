"""The composition root of lineage."""

from __future__ import annotations

from datetime import timedelta

from catalog.names import CatalogName
from server.adapters import Adapters
from server.service.lineage.collecting import LineageCollecting
from server.service.lineage.datasets import DatasetMatcher
from server.service.lineage.definitions import DefinitionReader
from server.service.lineage.graph import LineageGraphs
from server.service.lineage.intake import LineageIntake
from server.service.lineage.services import LineageServices


def build_lineage(adapters: Adapters) -> LineageServices:
    """Build the services of lineage."""
    settings, database = adapters.settings.lineage, adapters.database
    catalogs = {namespace: CatalogName(name) for namespace, name in settings.catalogs.items()}
    reader = DefinitionReader(database, adapters.metadata)
    return LineageServices(
        collecting=LineageCollecting(database, reader, timedelta(days=settings.days)),
        intake=LineageIntake(database, DatasetMatcher(settings.namespace, catalogs)),
        graphs=LineageGraphs(database),
    )
