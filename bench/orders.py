"""A table of orders and batches of changes to it, as Parquet, with what they must add up to.

The key is a number; ids grow with the day that the table is partitioned by, and a key never changes its day. A batch
is 80 % updates of whole rows, 15 % inserts and 5 % deletes, each key once. `uniform` draws keys from all days; `recent`
takes nine of ten from the last three days and inserts into the last two, so it needs at least four. No engine takes
part in the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

DAYS = 30
COLUMNS = (
    "id BIGINT, qty INT, status INT, store INT, sku INT, price DOUBLE, amount DOUBLE,"
    " customer STRING, note STRING, ts TIMESTAMP, day STRING"
)
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]

_FIRST_DAY = date(2026, 1, 1)
_START_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_DAY_US = 86_400_000_000
_RECENT_DAYS, _RECENT_SHARE = 3, 0.9
_LOAD_FILES = 8

Ints = npt.NDArray[np.int64]


class Skew(StrEnum):
    """Which keys change."""

    UNIFORM = "uniform"
    RECENT = "recent"


@dataclass(frozen=True, slots=True)
class Totals:
    """What every reader of the table must find. Amounts are whole 64ths, so that doubles add up exactly."""

    rows: int
    qty: int
    amount64: int


@dataclass(frozen=True, slots=True)
class Orders:
    """The files of one workload, and the table's totals before and after its batches."""

    load: Path
    upserts: list[Path]
    deletes: list[Path]
    both: list[Path]
    totals: list[Totals]


def generate(
    directory: Path, *, rows: int, changes: int, skew: Skew, batches: int = 1, days: int = DAYS, seed: int = 42
) -> Orders:
    """Write the initial rows and the batches; each batch as upserts, as deletes, and as both with a column `op`."""
    maker = _Maker(np.random.default_rng(seed), rows, batches, changes, skew, days)
    orders = Orders(directory / "load", [], [], [], [])
    orders.load.mkdir(parents=True)
    for part, ids in enumerate(np.array_split(np.arange(rows), _LOAD_FILES)):
        _write(maker.rows(ids), orders.load / f"{part}.parquet")
    orders.totals.append(maker.totals())
    for number in range(batches):
        upserted, deleted = maker.batch()
        changed = pa.concat_tables(
            [
                upserted.append_column("op", pa.array(["U"] * len(upserted))),
                deleted.append_column("op", pa.array(["D"] * len(deleted))),
            ]
        )
        for name, table, paths in (
            ("upserts", upserted, orders.upserts),
            ("deletes", deleted, orders.deletes),
            ("both", changed, orders.both),
        ):
            paths.append(directory / f"{name}{number}.parquet")
            _write(table, paths[-1])
        orders.totals.append(maker.totals())
    return orders


class _Maker:
    """Draws rows and remembers, per id, whether it lives and what it counts for."""

    def __init__(
        self, random: np.random.Generator, rows: int, batches: int, changes: int, skew: Skew, days: int
    ) -> None:
        self.random, self.skew, self.days = random, skew, days
        self.day_names = np.array([str(_FIRST_DAY + timedelta(days=day)) for day in range(days)])
        self.updates, self.inserts, self.deletes = (int(changes * share) for share in (0.80, 0.15, 0.05))
        self.next_id = rows
        size = rows + batches * self.inserts
        self.day = np.arange(size) * days // max(rows, 1)
        newest = days - 2 if skew is Skew.RECENT else 0
        self.day[rows:] = random.integers(newest, days, size - rows)
        self.lives = np.zeros(size, dtype=bool)
        self.qty = np.zeros(size, dtype=np.int64)
        self.amount64 = np.zeros(size, dtype=np.int64)

    def rows(self, ids: Ints) -> pa.Table:
        """New images of these rows."""
        count = len(ids)
        qty = self.random.integers(1, 100, count)
        price64 = self.random.integers(64, 64_000, count)
        self.lives[ids], self.qty[ids], self.amount64[ids] = True, qty, price64 * qty
        ts = _START_US + self.day[ids] * _DAY_US + self.random.integers(0, _DAY_US, count)
        notes = self.random.integers(0, 2**63 - 1, count)
        return pa.table(
            {
                "id": ids,
                "qty": qty.astype(np.int32),
                "status": self.random.integers(0, 8, count, dtype=np.int32),
                "store": self.random.integers(0, 500, count, dtype=np.int32),
                "sku": self.random.integers(0, 50_000, count, dtype=np.int32),
                "price": price64 / 64,
                "amount": price64 * qty / 64,
                "customer": [f"customer-{number:011d}" for number in self.random.integers(0, 100_000, count)],
                "note": [f"{note:020x}" for note in notes],
                "ts": pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
                "day": self.day_names[self.day[ids]],
            }
        )

    def batch(self) -> tuple[pa.Table, pa.Table]:
        """Rows to upsert, in random order, and whole rows to delete."""
        touched = self._picked(self.updates + self.deletes)
        deleted, updated = touched[: self.deletes], touched[self.deletes :]
        new = np.arange(self.next_id, self.next_id + self.inserts)
        self.next_id += self.inserts
        upserts = self.rows(self.random.permutation(np.concatenate([updated, new])))
        deletes = self.rows(deleted)
        self.lives[deleted] = False
        return upserts, deletes

    def totals(self) -> Totals:
        return Totals(int(self.lives.sum()), int(self.qty[self.lives].sum()), int(self.amount64[self.lives].sum()))

    def _picked(self, count: int) -> Ints:
        """That many different living ids."""
        living = np.flatnonzero(self.lives)
        if self.skew is Skew.UNIFORM:
            return self.random.choice(living, count, replace=False)
        is_recent = self.day[living] >= self.days - _RECENT_DAYS
        recent, old = living[is_recent], living[~is_recent]
        of_recent = min(int(count * _RECENT_SHARE), len(recent))
        picked = [
            self.random.choice(recent, of_recent, replace=False),
            self.random.choice(old, count - of_recent, replace=False),
        ]
        return self.random.permutation(np.concatenate(picked))


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")
