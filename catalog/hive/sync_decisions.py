"""What a sync does with each partition: take over what Hive has changed, wait, or hold it back until it is mended.

A sync detects changes by listing directories, reads the footers of files that came, and classifies the partitions by
filters. What no filter holds back is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from catalog.hive.baseline import ListedFile, WatchedDirectory
from catalog.hive.decision import Decision, Filter
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild

Changed = Additions | NewPartition | Rebuild | DroppedPartition


class SyncKind(StrEnum):
    """What a sync does with a partition."""

    ADD = "add"
    """It takes over files that came: to the partition, to a new one, or to a retired directory."""
    REBUILD = "rebuild"
    """The partition becomes what Hive lists there, below the changes that Hive was never given."""
    DROP = "drop"
    POINT_BACK = "point-back"
    """A writer has overwritten a retired directory: the metastore is pointed there again."""
    WAIT = "wait"
    """Time settles it: a later sync looks again."""
    HOLD = "hold"
    """It cannot be taken over as it is: somebody has to mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateChange:
    """Files that came to a directory which a partition was at before."""

    name: str
    files: tuple[ListedFile, ...]
    directory: WatchedDirectory
    """As it is known once they are taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What Hive's side did to one partition since the last sync."""

    change: Changed | None = None
    late: tuple[LateChange, ...] = ()

    @property
    def kind(self) -> SyncKind:
        """What a sync does with it unless a filter holds it back."""
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
    """A partition that waits for somebody who mends it."""
    return Decision(SyncKind.HOLD, NO_NEWS, reason, advice, filter_)


def waiting(filter_: str, reason: str) -> SyncDecision:
    """A partition that waits for time to pass."""
    return Decision(SyncKind.WAIT, NO_NEWS, reason, "", filter_)


def filter_always(name: str, kind: SyncKind, reasons: Mapping[str, str]) -> SyncFilter:
    """What is known of partitions whatever else is."""
    return Filter(name, kind, "", lambda _: reasons)


def filter_torn(find_torn: Callable[[Mapping[str, News]], str | None]) -> SyncFilter:
    """Rebuilds, which read base's rows of all partitions: none can run while files that base needs are gone for good.

    Of partitions that are still to be taken over the callable finds one whose files are. What is only added needs none
    of them.
    """

    def find(partitions: Mapping[str, News]) -> dict[str, str]:
        rebuilt = [name for name, news in partitions.items() if news.kind in (SyncKind.REBUILD, SyncKind.DROP)]
        torn = find_torn(partitions) if rebuilt else None
        return {} if torn is None else dict.fromkeys(rebuilt, _torn(torn))

    return Filter("rebuild-needs-lost-files", SyncKind.HOLD, "", find)


def origins_of(partitions: Mapping[str, News]) -> frozenset[str]:
    """Partitions that have lost files to rebuilt ones, or may have: where one is held back nobody knows."""
    rebuilds = [news.change for news in partitions.values() if isinstance(news.change, Rebuild)]
    return frozenset(name for rebuild in rebuilds for name in rebuild.origins)


def first_of(names: Collection[str]) -> str | None:
    """The first by name; None of none."""
    return min(names, default=None)


def _torn(name: str) -> str:
    return f"rows of partition {name} are gone, which may have moved here" if name else "rows of it are gone"
