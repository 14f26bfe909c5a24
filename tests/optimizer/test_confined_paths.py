"""Which paths a job may open: the rule, without a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.file_access import lies_plainly_in
from tests.optimizer.confined import confined


def test_about_a_tables_own_files_nobody_is_asked() -> None:
    server, file_access = confined("s3://b/wh/t", "hdfs://nn:9000/wh/t")
    file_access.check_files(["s3a://b/wh/t/metadata/m.avro", "hdfs://nn:9000/wh/t/data/a=1%2F2/x.parquet"])
    assert server.checked == []


def test_about_other_directories_the_server_is_asked_once_each() -> None:
    server, file_access = confined("s3://b/wh/t")
    for _ in range(2):
        file_access.check_files([f"s3://b/landing/{name}.parquet" for name in "abc"])
    file_access.check_files(["s3://b/wh/t2/x", "hdfs://other/wh/t/x", "s3://b/wh/t/../u/x"])
    assert server.checked == ["s3://b/landing/", "hdfs://other/wh/t/", "s3://b/wh/t/../u/x", "s3://b/wh/t2/"]


def test_links_are_asked_about_by_where_they_lead(tmp_path: Path) -> None:
    own, other = tmp_path / "t", tmp_path / "other"
    (own / "data").mkdir(parents=True)
    other.mkdir()
    (own / "data" / "link").symlink_to(other)
    (own / "data" / "x").symlink_to(other / "y")
    server, file_access = confined(f"file://{own}")
    file_access.check_files([f"file:{own}/data/link/z", f"{own}/data/x", f"{own}/data/plain"])
    assert server.checked == [f"{other}/", f"{other}/y"]


def test_of_hives_files_only_links_are_asked_about(tmp_path: Path) -> None:
    hive, other = tmp_path / "hive", tmp_path / "other"
    hive.mkdir()
    (hive / "000000_0").symlink_to(other / "y")
    server, file_access = confined("s3://b/wh/t")
    file_access.check_named([f"file:{hive}/000000_1", "s3://b/hive/p=1/000000_0"], [])
    assert server.checked == []
    file_access.check_named([f"file:{hive}/000000_0"], [])
    file_access.check_named([], [f"file:{hive}"])
    assert server.checked == [f"{other}/y"]


@pytest.mark.parametrize(
    ("file", "is_in"),
    [
        ("s3://b/wh/t/data/x", True),
        ("s3a://b/wh/t/data/a=1%2F2/x", True),
        ("s3://b/wh/t2/x", False),
        ("s3://b/wh/t/../x", False),
        ("s3://b/o/../wh/t/x", False),
        ("s3://b/wh/t/%2e%2e/x", False),
        ("s3://b/wh/t//x", False),
        ("s3://c/wh/t/x", False),
        ("gs://b/wh/t/x", False),
        ("/wh/t/x", False),
    ],
)
def test_a_file_lies_in_a_directory_only_if_every_reader_thinks_so(file: str, is_in: bool) -> None:  # noqa: FBT001
    assert lies_plainly_in(file, "s3://b/wh/t") is is_in


def test_a_link_out_of_the_table_is_no_place_to_delete_in(tmp_path: Path) -> None:
    own, other = tmp_path / "t", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (own / "data").symlink_to(other)
    assert not lies_plainly_in(f"file:{own}/data/x", f"file://{own}")
    assert lies_plainly_in(f"file:{own}/x", f"file://{own}")
