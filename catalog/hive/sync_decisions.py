"""Sync decisions: for each partition, take Hive's changes over, wait, or hold it back until a user fixes it.

A sync lists directories to detect changes, reads the footers of new files, and classifies the partitions by filters. It
takes over each partition that no filter holds back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from catalog.hive.baseline import WatchedDirectory
from catalog.hive.decision import Decision, Filter
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.listing import ListedFile

Changed = Additions | NewPartition | Rebuild | DroppedPartition


class SyncKind(StrEnum):
    """The decision of a sync about a partition."""

    ADD = "add"
    """Take over added files: in the partition, in a new one, or in a superseded directory."""
    REBUILD = "rebuild"
    """The partition becomes the rows that Hive lists, and on them the changes that were never published."""
    DROP = "drop"
    POINT_BACK = "point-back"
    """A writer has overwritten a superseded directory: point the metastore there again."""
    WAIT = "wait"
    """A later sync tries again, after some time."""
    HOLD = "hold"
    """The partition cannot be taken over until a user has fixed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateChange:
    """Files that were added to a superseded directory of a partition."""

    name: str
    files: tuple[ListedFile, ...]
    directory: WatchedDirectory
    """The directory's state after the sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The changes of Hive's side to one partition since the last sync."""

    change: Changed | None = None
    late: tuple[LateChange, ...] = ()

    @property
    def kind(self) -> SyncKind:
        """The action of a sync that no filter holds back."""
        match self.change:
            case Rebuild():
                return SyncKind.REBUILD
            case DroppedPartition():
                return SyncKind.DROP
            case _:
                return SyncKind.ADD


SyncDecision = Decision[SyncKind, News]
SyncFilter = Filter[SyncKind, News]
NO_NEWS = News()


def held(filter_: str, reason: str, advice: str = "") -> SyncDecision:
    """The decision to hold a partition back until a user fixes it."""
    return Decision(SyncKind.HOLD, NO_NEWS, reason, advice, filter_)


def waiting(filter_: str, reason: str) -> SyncDecision:
    """The decision to wait with a partition for a later sync."""
    return Decision(SyncKind.WAIT, NO_NEWS, reason, "", filter_)


def build_known_filter(name: str, kind: SyncKind, reasons: Mapping[str, str]) -> SyncFilter:
    """A filter that holds back partitions for known reasons, by partition."""
    return Filter(name, kind, "", lambda _: reasons)


def build_torn_filter(find_torn: Callable[[Mapping[str, News]], str | None]) -> SyncFilter:
    """A filter that holds back all rebuilds while base needs files that are lost, because a rebuild reads all of base.

    `find_torn` finds one of the partitions to take over whose files are lost. Additions need no files of base.
    """

    def find(partitions: Mapping[str, News]) -> dict[str, str]:
        rebuilt = [name for name, news in partitions.items() if news.kind in (SyncKind.REBUILD, SyncKind.DROP)]
        torn = find_torn(partitions) if rebuilt else None
        return {} if torn is None else dict.fromkeys(rebuilt, _torn(torn))

    return Filter("rebuild-needs-lost-files", SyncKind.HOLD, "", find)


def list_origins(partitions: Mapping[str, News]) -> frozenset[str]:
    """List the partitions from which files moved into rebuilt ones."""
    rebuilds = [news.change for news in partitions.values() if isinstance(news.change, Rebuild)]
    return frozenset(name for rebuild in rebuilds for name in rebuild.origins)


def first_of(names: Collection[str]) -> str | None:
    """The first partition by name; None without any."""
    return min(names, default=None)


def _torn(name: str) -> str:
    return f"rows of partition {name} are gone, which may have moved here" if name else "rows of it are gone"
