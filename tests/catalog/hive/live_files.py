"""Files of a table, as a manifest lists them."""

from __future__ import annotations

from catalog.files.data_file import LiveFile


def a_file(location: str, rows: int, *, content: int = 0, partition: str = "x") -> LiveFile:
    return LiveFile(
        location=location,
        content=content,
        size=1,
        record_count=rows,
        partition=(partition,),
        spec_id=0,
        sequence_number=1,
        manifest="m",
    )
