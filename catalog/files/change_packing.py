"""Packing of a change store's small files. Pure: files in, packs out.

Optimizers pack by it and dry runs count by it. Optimizers may import nothing else of this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SMALL_SHARE = 0.75
"""A file of this share of the target counts as full: packing it again would gain next to nothing."""


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A live file; `number` is its sequence number, the highest of its rows. `index` identifies it."""

    index: int
    bytes: int
    number: int


@dataclass(frozen=True, slots=True)
class Pack:
    """Files that become one. All of them lie on one side of the watermark; `is_pending` tells which."""

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

    Merged and pending rows are never packed together. A clean takes whole files, so it would have to keep the merged
    rows until the pending ones are merged. A pack is closed when the next file would make it larger than the target.
    The newest pack stays open, its files unpacked, until it has `min_files`.
    """
    small = sorted((file for file in files if file.bytes < SMALL_SHARE * target_bytes), key=lambda file: file.number)
    merged = [file for file in small if file.number <= watermark]
    pending = [file for file in small if file.number > watermark]
    return [
        Pack(pack, is_pending)
        for side, is_pending in ((merged, False), (pending, True))
        for pack in _roll_over(side, target_bytes, min_files)
    ]


def _roll_over(files: Sequence[ChangeFile], target_bytes: int, min_files: int) -> list[list[ChangeFile]]:
    closed: list[list[ChangeFile]] = []
    pack: list[ChangeFile] = []
    for file in files:
        if pack and sum(packed.bytes for packed in pack) + file.bytes > target_bytes:
            closed.append(pack)
            pack = []
        pack.append(file)
    if len(pack) >= min_files:
        closed.append(pack)
    return [pack for pack in closed if len(pack) > 1]
