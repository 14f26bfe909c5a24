"""Which small files of a change store are packed together. Pure: files in, packs out.

Optimizers pack by it and dry runs count by it; nothing else of this package is an optimizer's to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SMALL_SHARE = 0.75
"""A file of this share of the target is as good as full: packing it again would write it for next to nothing."""


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A live file; `number` is its sequence number: no row of it is newer. `index` finds it again."""

    index: int
    bytes: int
    number: int


@dataclass(frozen=True, slots=True)
class Pack:
    """Files that become one. `is_pending` says on which side of the watermark they lie, all of them."""

    files: Sequence[ChangeFile]
    is_pending: bool

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def number(self) -> int:
        return max(file.number for file in self.files)


def pack_files(files: Sequence[ChangeFile], *, watermark: int, target_bytes: int, min_files: int) -> list[Pack]:
    """Packs of one partition's files, the oldest first.

    Merged and pending rows are never packed together: a clean takes whole files, and would have to leave the merged
    rows for as long as the others are pending. A pack that the next file would make larger than the target is closed
    and the next one begins; the newest stays open, its files left alone, until it has `min_files`.
    """
    small = sorted((file for file in files if file.bytes < SMALL_SHARE * target_bytes), key=lambda one: one.number)
    merged = [file for file in small if file.number <= watermark]
    pending = [file for file in small if file.number > watermark]
    return [
        Pack(pack, is_pending)
        for side, is_pending in ((merged, False), (pending, True))
        for pack in _rolled_over(side, target_bytes, min_files)
    ]


def _rolled_over(files: Sequence[ChangeFile], target_bytes: int, min_files: int) -> list[list[ChangeFile]]:
    closed: list[list[ChangeFile]] = []
    pack: list[ChangeFile] = []
    for file in files:
        if pack and sum(one.bytes for one in pack) + file.bytes > target_bytes:
            closed.append(pack)
            pack = []
        pack.append(file)
    if len(pack) >= min_files:
        closed.append(pack)
    return [pack for pack in closed if len(pack) > 1]
