"""What lies in a warehouse, compared with what the catalog names."""

from __future__ import annotations

from catalog.names import TableName
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake


def nobodys_files(lake: Lake, *tables: TableName) -> set[str]:
    """Files in the warehouse that no table's metadata names; that all it names can be read is checked on the way."""
    named: set[str] = set()
    for table in tables or (PLAIN,):
        location = lake.services.tables.load(LAKE, table).metadata_location
        assert location is not None
        metadata = lake.metadata(table)
        locations = [location, *(entry["metadata-file"] for entry in metadata["metadata-log"])]
        for named_location in locations:
            assert lake.services.metadata.files.read(named_location)
        named |= {location.rpartition("/")[2] for location in locations}
    return {path.name for path in lake.warehouse.rglob("*") if path.is_file()} - named
