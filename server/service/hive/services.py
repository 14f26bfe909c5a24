"""The services beside Hive, gathered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from server.service.hive.check import Checks
from server.service.hive.convert import Conversions
from server.service.hive.downgrade import Downgrades
from server.service.hive.hearing import Hearing
from server.service.hive.index import HiveIndex
from server.service.hive.operations import Operations
from server.service.hive.owners import Marks
from server.service.hive.publish import Publishes
from server.service.hive.published import PublishedFiles
from server.service.hive.sync import Syncs
from server.service.hive.upgrade import Upgrades


@dataclass(slots=True, kw_only=True)
class HiveServices:
    """What the routes may call; `poke` and those like it let what was started begin at once."""

    index: HiveIndex
    checks: Checks
    operations: Operations
    upgrades: Upgrades
    syncs: Syncs
    hearing: Hearing
    publishes: Publishes
    published: PublishedFiles
    downgrades: Downgrades
    conversions: Conversions
    marks: Marks
    poke: Callable[[], None] = field(default=lambda: None)
    poke_publishes: Callable[[], None] = field(default=lambda: None)
    poke_downgrades: Callable[[], None] = field(default=lambda: None)
