"""A scan whose files vanish after loading: it loads the table again, and names the lost file in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import FileFormat
from pyiceberg.table import Table
from pyiceberg.types import LongType

from firn.errors import Unavailable
from firn.scan import Scan
from tests.firn.scan.avro_files import WrittenTable, column


@dataclass
class Overwritten:
    """A table whose old state is loaded the first times."""

    old: Table
    new: Table
    old_loads: int
    loads: int = field(default=0)

    def load(self) -> Table:
        self.loads += 1
        return self.old if self.loads <= self.old_loads else self.new


def overwritten(directory: Path, old_loads: int) -> Overwritten:
    """The file of the old state is gone; the new state has one row, 2."""
    tables = []
    for number in (1, 2):
        place = directory / f"state{number}"
        place.mkdir()
        table = WrittenTable(place, column(1, "id", LongType()))
        pq.write_table(pa.table({"id": [number]}), place / f"f{number}.parquet")
        table.register(place / f"f{number}.parquet", FileFormat.PARQUET, 1)
        tables.append(table.table)
    (directory / "state1" / "f1.parquet").unlink()
    old, new = tables
    return Overwritten(old, new, old_loads)


@pytest.mark.parametrize("old_loads", [0, 1, 2])
def test_a_table_whose_files_are_lost_is_loaded_again(tmp_path: Path, old_loads: int) -> None:
    source = overwritten(tmp_path, old_loads)
    assert Scan(source=source).to_arrow()["id"].to_pylist() == [2]
    assert source.loads == old_loads + 1


def test_a_file_that_stays_lost_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"f1\.parquet") as lost:
        Scan(source=overwritten(tmp_path, 3)).to_arrow()
    assert "firn hive sync" in (lost.value.hint or "")
