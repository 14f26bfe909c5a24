"""The builder of images as a process: what it opens, and what happens when it fails, dies or hangs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from catalog.errors import LocationRefused, NotFound, Unavailable
from server.launch.layer_builder import COMMAND, LayerBuilderProcess
from tests.server.files.keyed_stores import KeyedStores, read_rows
from tests.server.files.test_images import change, row


@pytest.fixture
def stores(tmp_path: Path) -> KeyedStores:
    stores = KeyedStores(tmp_path)
    stores.write_base("d1", [row(1, 10, "d1"), row(2, 20, "d1")])
    stores.write_changes([change(2, 21, "d1"), change(3, 30, "d2", "I")])
    return stores


@pytest.fixture
def builder() -> Iterator[LayerBuilderProcess]:
    process = LayerBuilderProcess(command=list(COMMAND))  # a list: the real program, which other tests fork
    yield process
    process.stop()


def accept(_: Sequence[str]) -> None:
    """Every file may be opened."""


def test_it_builds_and_asks_for_each_file_first(stores: KeyedStores, builder: LayerBuilderProcess) -> None:
    requested_files: list[str] = []
    stores.build = lambda task: builder.build(task, requested_files.extend)
    location, _ = stores.write_image()
    assert {r["id"]: r["qty"] for r in read_rows(location)} == {1: 10, 2: 21, 3: 30}
    names = {Path(file).name for file in requested_files}
    assert "000000_0" in names  # base's file
    assert {Path(file).suffix for file in requested_files} == {
        "",
        ".avro",
        ".parquet",
    }  # the manifests and the changes, too


def test_a_file_that_may_not_be_opened_ends_the_build(stores: KeyedStores, builder: LayerBuilderProcess) -> None:
    def refuse(files: Sequence[str]) -> None:
        if any(file.endswith("000000_0") for file in files):
            raise LocationRefused("it is another table's")

    with pytest.raises(LocationRefused, match="another table's"):
        builder.build(stores.layer_task(stores.image_key()), refuse)
    assert not list(stores.root.glob("merged/*"))
    assert builder.build(stores.layer_task(stores.image_key()), accept).keys == 2  # the next task gets its own layer


def test_a_missing_file_is_named(stores: KeyedStores, builder: LayerBuilderProcess) -> None:
    (file,) = (stores.root / "hive" / "day=d1").iterdir()
    file.unlink()
    with pytest.raises(NotFound, match="000000_0"):
        builder.build(stores.layer_task(stores.image_key()), accept)


def test_a_damaged_file_is_an_error_of_this_build_alone(stores: KeyedStores, builder: LayerBuilderProcess) -> None:
    (file,) = (stores.root / "hive" / "day=d1").iterdir()
    whole = file.read_bytes()
    file.write_bytes(b"PAR1" + b"x" * 100)
    with pytest.raises(Unavailable, match="cannot be built"):
        builder.build(stores.layer_task(stores.image_key()), accept)
    file.write_bytes(whole)
    assert builder.build(stores.layer_task(stores.image_key()), accept).keys == 2


def test_a_killed_builder_is_replaced(stores: KeyedStores, builder: LayerBuilderProcess) -> None:
    def kill(_: Sequence[str]) -> None:
        assert builder._process is not None
        builder._process.kill()
        builder._process.wait()

    with pytest.raises(Unavailable, match="stopped"):
        builder.build(stores.layer_task(stores.image_key()), kill)
    assert builder.build(stores.layer_task(stores.image_key()), accept).keys == 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import time; time.sleep(60)", "took longer than 1 s"),
        ("print('hello', flush=True)", "stopped"),
        ("import sys; sys.exit(3)", "exit code 3|Broken pipe"),
    ],
)
def test_a_builder_that_does_not_answer_is_ended(stores: KeyedStores, program: str, why: str) -> None:
    builder = LayerBuilderProcess(command=(sys.executable, "-c", program), timeout_seconds=1)
    with pytest.raises(Unavailable, match=why):
        builder.build(stores.layer_task(stores.image_key()), accept)
    assert builder._process is None
