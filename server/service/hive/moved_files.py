"""Files that came are told from those that were moved, by looking into the few that may be (decision 64)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catalog.hive.baseline import ListedFile, PartitionBaseline
from catalog.hive.drift import Drift
from catalog.hive.moved_files import (
    Arrival,
    FileMove,
    apply_moves,
    detect_moves,
    find_move_candidates,
    list_arrivals,
    select_digest_files,
)
from catalog.ports.files import TableFiles
from server.service.hive.hive_state import join


@dataclass(frozen=True)
class MoveDetection:
    """Knows files of one table again."""

    files: TableFiles
    baselines: Mapping[str, PartitionBaseline]
    found: Mapping[str, Drift | None]
    """What a look has found so far."""

    def with_moves(
        self, locations: Mapping[str, str], copying: Collection[str], now_ns: int
    ) -> dict[str, Drift | None]:
        """What was found, with files that were moved taken for what they are: none that somebody has added.

        `locations` are the directories of partitions; in those of `copying` a move is a copy.
        """
        come = list_arrivals(self.found)
        return apply_moves(self.found, self._moves(come, locations, copying), now_ns)

    def moved_to(self, location: str, files: Collection[ListedFile], *, is_copy: bool) -> list[str]:
        """Those of the files that came to any directory which this or another partition had, by path."""
        come = {(location, file.path): file for file in files}
        moved = self._moves(come, {location: location}, [location] if is_copy else [])
        return sorted(path for _, path in moved)

    def _moves(
        self, come: Mapping[Arrival, ListedFile], locations: Mapping[str, str], copying: Collection[str]
    ) -> dict[Arrival, FileMove]:
        may_be = find_move_candidates(come, self.found, self.baselines, copying)
        asked = select_digest_files(come, may_be)
        digests = self.files.digests([join(locations[name], path) for name, path in asked])
        return detect_moves(come, may_be, dict(zip(asked, digests, strict=True)))
