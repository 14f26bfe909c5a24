"""Hive files whose rows went into a keyed table's change store, and which of them Hive still lists (decision 12)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from catalog.hive.baseline import ListedFile
from catalog.hive.path_prefix import find_innermost
from firn.protocol.locations import normalize_location


def source_of(location: str, file: ListedFile) -> str:
    """The identity of a Hive file, as changes carry it in `_source`, however the metastore spells its location."""
    return f"{normalize_location(location)}#{file.mtime_ns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSources:
    """Hive files whose rows went into the change store: `live` ones are still listed by Hive, `dead` ones are not.

    A rebuild replays changes of live files and leaves out changes of dead files, however long ago these vanished.
    """

    live: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    def appended(self, sources: Collection[str]) -> ChangeSources:
        """Once the rows of these were appended; a file that came back lives again."""
        return ChangeSources(live=self.live | set(sources), dead=self.dead - set(sources))

    def vanished(self, sources: Collection[str]) -> ChangeSources:
        """Once Hive has ceased to list these. Files that were registered or rebuilt have no changes to leave out."""
        gone = self.live & set(sources)
        return ChangeSources(live=self.live - gone, dead=self.dead | gone)

    def except_below(self, directories: Collection[str], looked_at: Collection[str]) -> ChangeSources:
        """Without files that cannot vanish any more, because no sync lists their directories.

        Where directories lie in each other, the inner one decides.
        """
        if not directories:
            return self
        left, stay = set(map(normalize_location, directories)), set(map(normalize_location, looked_at))
        places, over = left | stay, left - stay
        live = frozenset(
            source for source in self.live if find_innermost(source.rpartition("/")[0], places) not in over
        )
        return replace(self, live=live)
