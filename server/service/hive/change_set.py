"""The changes that one sync has detected of a linked table, by partition, and its decision about each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from catalog.hive.baseline import PartitionBaseline
from catalog.hive.decision import Decision
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.link import DriftKind
from catalog.hive.listing import Subdirectories
from catalog.hive.sync_decisions import Changed, LateChange, News, SyncDecision, SyncKind
from server.service.hive.hive_state import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class SubdirectoryRule:
    """The rule that says which files of a linked table count."""

    subdirectories: Subdirectories = Subdirectories.ASK
    """The owner's choice about files in sub-directories."""
    may_leave: bool = False
    """Whether files that were read in sub-directories may go because the owner ignores these now."""
    own_places: tuple[str, ...] = ()
    """Directories in which Firn writes: their files never count as Hive's."""
    foreign: tuple[str, ...] = ()
    """Directories of this Hive table that belong to other tables of Firn: their files do not count."""

    @property
    def reads(self) -> bool:
        """Whether files in sub-directories count."""
        return self.subdirectories is Subdirectories.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """The changes of all partitions, as one comparison has detected them."""

    changed: dict[str, Changed] = field(default_factory=dict)
    refreshed: dict[str, PartitionBaseline] = field(default_factory=dict)
    """Grounds to be renewed though nothing is to be taken over: their signals moved, or they have settled."""
    postponed: dict[str, SyncDecision] = field(default_factory=dict)
    young: dict[str, str] = field(default_factory=dict)
    """Partitions to which files came that wait for the next look, the others being taken over; and why."""
    held: dict[str, SyncDecision] = field(default_factory=dict)
    """Partitions that cannot be taken over as they are; the others are."""
    units: dict[str, Unit] = field(default_factory=dict)
    listed: int = 0
    began_ns: int = 0
    forgotten: tuple[str, ...] = ()
    """Dropped partitions that need not be remembered any more."""
    asleep: frozenset[str] = frozenset()
    """Dropped partitions that got fewer changes from publishes than others; the link stores only how many."""
    is_sweep: bool = False
    """Whether every directory was listed, whatever the signals say."""
    late: list[LateChange] = field(default_factory=list)
    """Files that came to directories which the metastore does not point at any more."""
    lost_late: frozenset[str] = frozenset()
    """The files that superseded directories have lost, by location. They matter only if the table contains them."""
    unwatched: list[str] = field(default_factory=list)
    """Such directories that need not be looked at again."""
    differs: str | None = None
    """The difference of columns that a user has to resolve; None without one."""
    differs_in: DriftKind = DriftKind.COLUMNS
    overwritten: dict[str, str] = field(default_factory=dict)
    """Partitions of which such a directory was overwritten, each with the directory."""

    @property
    def news(self) -> dict[str, News]:
        """The changes to take over, by partition."""
        news = {name: News(change=change) for name, change in self.changed.items()}
        for late in self.late:
            news_so_far = news.get(late.name, News())
            news[late.name] = replace(news_so_far, late=(*news_so_far.late, late))
        return news

    @property
    def decisions(self) -> dict[str, SyncDecision]:
        """One for each partition of which there is anything to say."""
        back = dict.fromkeys(self.overwritten, Decision(SyncKind.POINT_BACK, News()))
        accepted = {name: Decision(news.kind, news) for name, news in self.news.items()}
        return {**self.postponed, **self.held, **back, **accepted}

    @property
    def is_all_quiet(self) -> bool:
        """Whether there is nothing to take over."""
        return not (self.changed or self.late or self.lost_late or self.overwritten)

    @property
    def rebuilds(self) -> dict[str, Changed]:
        """Partitions that saw more than additions (docs/protocols.md, rule 3.1): until they are built anew, base
        may lack files.
        """
        return {name: change for name, change in self.changed.items() if isinstance(change, Rebuild | DroppedPartition)}

    @property
    def sentence(self) -> str | None:
        """The difference in words; None when there is none."""
        if not (self.changed or self.late or self.lost_late):
            return None
        words = {
            Additions: "new files",
            NewPartition: "new",
            Rebuild: "rewritten or moved",
            DroppedPartition: "dropped",
        }
        counts = {
            word: sum(isinstance(change, kind) for change in self.changed.values()) for kind, word in words.items()
        }
        counted = [f"{word}: {count}" for word, count in counts.items() if count]
        late = [f"written to where they were before: {len({late.name for late in self.late})}"] if self.late else []
        lost = [f"lost files where they were before: {len(self.lost_late)}"] if self.lost_late else []
        return "partitions " + ", ".join([*counted, *late, *lost])

    @property
    def trouble(self) -> str | None:
        """All that is not taken over, in words; None when there is nothing."""
        return "; ".join(text for text in (self.differs, self.held_back) if text) or None

    @property
    def held_back(self) -> str | None:
        """The problems that a user has to solve before the sync takes these changes over; None without any."""
        if not self.held:
            return None
        name, decision = next(iter(self.held.items()))
        partition = f"partition {name}" if name else "the table"
        more = len(self.held) - 1
        others = f"; {more} more {'partition waits' if more == 1 else 'partitions wait'} too" if more else ""
        return f"{partition} is not taken over: {decision.words}{others}"
