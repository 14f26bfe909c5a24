"""A whole Hive table is locked while its entry in the metastore is altered, where the metastore has locks.

As Hive itself does for its own ALTER TABLE: it comes before or after those that write to a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from catalog.errors import Unavailable
from catalog.planning.trigger_result import format_count
from catalog.ports.metastore import Metastore
from server.service.hive.hive_state import WHOLE_TABLE


@contextmanager
def locked(metastore: Metastore, database: str, name: str) -> Iterator[None]:
    """Unavailable while others have locked anything of it."""
    with metastore.lock(database, name, [WHOLE_TABLE]) as lock:
        if lock.busy:
            raise Unavailable(f"{database}.{name} is not altered: {explain_busy(lock.busy)}")
        yield


def explain_busy(busy: Mapping[str, str]) -> str:
    """Who has locked how much, in words."""
    partitions = format_count(len(busy), "partition") if WHOLE_TABLE not in busy else "the table"
    return f"others have locked {partitions} in the metastore: {next(iter(busy.values()))}"
