"""Scan plans as the database stores them."""

from __future__ import annotations

from itertools import count

import orjson

from tests.server.scans.lake_table import LakeTable

_files = count()


def stored(table: LakeTable) -> str:
    """The table's metadata as a file."""
    location = table.place / "metadata" / f"{next(_files):05}.metadata.json"
    location.parent.mkdir(parents=True, exist_ok=True)
    location.write_bytes(orjson.dumps(table.metadata))
    return str(location)
