"""Hive files whose rows went into a keyed table's change store, and which of them Hive still lists (decision 12)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from catalog.hive.listing import ListedFile
from catalog.hive.path_prefix import find_innermost
from firn.protocol.locations import normalize_location


def format_source(location: str, file: ListedFile) -> str:
    """Format the identity of a Hive file for the column `_source`, however the metastore spells its location."""
    return f"{normalize_location(location)}#{file.mtime_ns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSources:
    """Hive files whose rows went into the change store: `live` ones are still listed by Hive, `dead` ones are not.

    A rebuild replays changes of live files and leaves out changes of dead files, however long ago these vanished.
    """

    live: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()

    def with_appended(self, sources: Collection[str]) -> ChangeSources:
        """The sources after the rows of these files were appended. A file that came back is live again."""
        return ChangeSources(live=self.live | set(sources), dead=self.dead - set(sources))

    def with_vanished(self, sources: Collection[str]) -> ChangeSources:
        """The sources after Hive stopped listing these. Files without changes in the change store are ignored."""
        gone = self.live & set(sources)
        return ChangeSources(live=self.live - gone, dead=self.dead | gone)

    def without_directories(self, directories: Collection[str], present: Collection[str]) -> ChangeSources:
        """The sources without files in directories that no sync lists any more, so that they cannot vanish.

        If directories are nested, the inner one decides.
        """
        if not directories:
            return self
        unlisted, kept = set(map(normalize_location, directories)), set(map(normalize_location, present))
        remaining, ended = unlisted | kept, unlisted - kept
        live = frozenset(
            source for source in self.live if find_innermost(source.rpartition("/")[0], remaining) not in ended
        )
        return replace(self, live=live)
