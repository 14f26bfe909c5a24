"""Whether an upgrade is complete."""

from __future__ import annotations

from tests.server.service.hive.beside_hive import BesideHive, HiveFiles


def check_upgraded(beside: BesideHive, table: HiveFiles) -> None:
    """The table stands on Hive's files, and the warehouse holds no file of another attempt."""
    metadata = beside.metadata(table)
    assert metadata is not None
    assert beside.live(table) == table.files()
    assert metadata["snapshots"][-1]["summary"]["total-records"] == "3"
    manifests = {file.manifest for file in beside.upgrades.files.live_files(metadata)}
    assert all(place.startswith(metadata["location"]) for place in manifests)
    root = metadata["location"].removesuffix("/base").removeprefix(beside.warehouse.as_uri())
    elsewhere = [path for path in beside.written() if table.short in str(path) and root not in str(path)]
    assert elsewhere == []
