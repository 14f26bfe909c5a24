"""Grounds as they are kept in the database."""

from __future__ import annotations

from catalog.hive.ground import Ground, ListedFile, Signals
from catalog.iceberg.json import Json


def ground_to_json(ground: Ground) -> Json:
    """Compact: a listing may hold thousands of files."""
    return {
        "location": ground.signals.location,
        "ddl_time": ground.signals.ddl_time,
        "statistics": list(ground.signals.statistics),
        "published_through": ground.published_through,
        "settled": ground.settled,
        "directory_mtime_ns": ground.directory_mtime_ns,
        "files": [[file.path, file.size, file.mtime_ns, file.identity] for file in ground.files],
    }


def ground_from_json(stored: Json) -> Ground:
    """The ground again."""
    files, size = stored["statistics"]
    return Ground(
        signals=Signals(location=stored["location"], ddl_time=stored["ddl_time"], statistics=(files, size)),
        files=tuple(ListedFile(*fields) for fields in stored["files"]),
        published_through=stored["published_through"],
        settled=stored["settled"],
        directory_mtime_ns=stored["directory_mtime_ns"],
    )
