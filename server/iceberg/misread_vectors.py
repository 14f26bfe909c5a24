"""Refuses loads of tables whose deletion vectors DuckDB misreads: wrong rows without an error (decision 168)."""

from __future__ import annotations

import re

import orjson

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.names import TableName

_HAS_VECTORS = re.compile(rb'"format-version"\s*:\s*[3-9]')


def refuse_misread_vectors(name: TableName, text: bytes) -> None:
    """Raise Invalid if the metadata is in format v3, the partitioning has changed, and the snapshot has deletes.

    DuckDB 1.5.5 then applies vectors to other rows than theirs, and not always to the same ones.
    """
    if _HAS_VECTORS.search(text) is None:
        return
    metadata = orjson.loads(text)
    if metadata["format-version"] >= 3 and len(metadata["partition-specs"]) > 1 and _may_have_deletes(metadata):
        raise Invalid(
            f"DuckDB would return wrong rows of {name}: its partitioning has changed, and in format v3 it has "
            "deletion vectors",
            hint=f"set firn.read.format-version=2 on {name} if it is a keyed table, or read it with another engine",
        )


def _may_have_deletes(metadata: Json) -> bool:
    head = current_snapshot(metadata)
    return head is not None and (head.get("summary") or {}).get("total-delete-files") != "0"
