"""The first rows of files: how many, of which columns, and what damaged or odd files do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from firn.errors import Refused
from firn.protocol.tasks.query import FirstRows, QueryLimits, QueryMessage, QueryTable, QueryTask, SampledFile
from optimizer.queries.execution import run_query
from optimizer.queries.first_rows import BATCH_ROWS

LIMITS = QueryLimits(rows=100, result_bytes=2**20, memory_bytes=2**28, threads=1, files=50)


@dataclass
class Files:
    root: Path
    files: list[SampledFile] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    def add(self, rows: pa.Table, kind: str = "PARQUET", constants: Mapping[str, str | None] | None = None) -> Path:
        path = self.root / f"{len(self.files)}.{kind.lower()}"
        if kind == "PARQUET":
            pq.write_table(rows, path, row_group_size=1_500)
        else:
            orc.write_table(rows, path)
        self.files.append(SampledFile(location=f"file:{path}", format=kind, constants=dict(constants or {})))
        return path

    def ask(
        self, statement: str, columns: Sequence[str], rows: int = 10_000, result_bytes: int = 2**24
    ) -> list[list[str | None]]:
        first = FirstRows(files=self.files, rows=rows, result_bytes=result_bytes)
        table = QueryTable(
            view="t", name="db.t", metadata="", snapshot_id=None, columns=list(columns), first_rows=first
        )
        task = QueryTask(statement=statement, tables=[table], limits=LIMITS, export=False)
        messages: list[QueryMessage] = []
        run_query(task, lambda _view, files: self.checked.extend(files), messages.append)
        return [row for message in messages if message.page is not None for row in message.page.rows]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("kind", ["PARQUET", "ORC"])
def test_rows_and_bytes_bound_what_is_read_of_a_file(files: Files, kind: str) -> None:
    files.add(pa.table({"id": range(20_000), "note": ["x" * 1_000] * 20_000}), kind)
    assert files.ask("SELECT count(*), max(id) FROM t", ["id"], rows=2_500) == [["2500", "2499"]]
    [[rows]] = files.ask("SELECT count(*) FROM t", ["note"], result_bytes=10_000)
    assert rows == str(BATCH_ROWS)
    assert files.checked == [file.location for file in files.files] * 2


def test_parquet_and_orc_lie_in_one_table_with_their_partitions(files: Files) -> None:
    files.add(pa.table({"ID": pa.array([1, 2], pa.int32())}), constants={"day": "a"})
    files.add(pa.table({"id": pa.array([2, 3], pa.int64())}), "ORC", constants={"day": None})
    files.add(pa.table({"other": [1]}), constants={"day": "c"})
    rows = files.ask('SELECT id, day, "firn.file" FROM t ORDER BY 3, 1', ["id", "day"])
    assert rows == [["1", "a", "0"], ["2", "a", "0"], ["2", None, "1"], ["3", None, "1"], [None, "c", "2"]]


def test_damaged_files_are_left_out(files: Files) -> None:
    files.add(pa.table({"id": [1]}))
    files.add(pa.table({"id": [2]})).write_bytes(b"PAR1 no rows PAR1")
    files.add(pa.table({"id": [3]}), "ORC").write_bytes(b"ORC")
    files.add(pa.table({"id": [4]})).unlink()
    torn = files.add(pa.table({"id": range(50_000)}))
    content = bytearray(torn.read_bytes())
    content[4:5_000] = b"\xff" * 4_996
    torn.write_bytes(content)
    assert files.ask("SELECT id FROM t", ["id"]) == [["1"]]


def test_without_a_readable_file_the_reason_is_told(files: Files) -> None:
    files.add(pa.table({"id": [2]})).write_bytes(b"")
    with pytest.raises(Refused, match=r"no file of db\.t can be read"):
        files.ask("SELECT id FROM t", ["id"])


def test_files_whose_types_do_not_meet_are_refused(files: Files) -> None:
    files.add(pa.table({"id": [2]}))
    files.add(pa.table({"id": [[1]]}))
    with pytest.raises(Refused, match="different types"):
        files.ask("SELECT id FROM t", ["id"])


def test_hostile_names_and_large_decimals(files: Files) -> None:
    name = 'a"; drop table t; --\u202e'
    values = [Decimal("9" * 38), Decimal("9" * 38), None]
    files.add(pa.table({name: pa.array(values, pa.decimal128(38, 0))}))
    quoted = '"' + name.replace('"', '""') + '"'
    statement = f"SELECT {quoted}, count(*) FROM t GROUP BY 1 ORDER BY 2"
    assert files.ask(statement, [name]) == [[None, "1"], ["9" * 38, "2"]]


def test_the_server_decides_which_files_are_opened(files: Files) -> None:
    files.add(pa.table({"id": [1]}))

    def refuse(_view: str, _files: Sequence[str]) -> None:
        raise PermissionError("not this one")

    table = QueryTable(
        view="t", name="t", metadata="", snapshot_id=None, columns=["id"],
        first_rows=FirstRows(files=files.files, rows=1, result_bytes=1),
    )  # fmt: skip
    with pytest.raises(PermissionError):
        run_query(QueryTask(statement="SELECT 1 FROM t", tables=[table], limits=LIMITS), refuse, lambda _message: None)
