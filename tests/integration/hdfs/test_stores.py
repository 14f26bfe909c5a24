"""One behaviour on a local disk, on HDFS and in S3."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from catalog.errors import AlreadyExists, NotFound, Unavailable
from server.files.read_limits import TooLarge
from tests.integration.hdfs.stores import Store


@pytest.mark.parametrize("name", ["v1.metadata.json", "day=2026-01-01/a b/ü%3A%20#1?.parquet"])
def test_what_is_written_is_read_back(store: Store, name: str) -> None:
    if store.kind == "s3" and "#" in name:
        pytest.skip("PyArrow's S3 takes a location as a URI")
    location, storage = f"{store.top}/deep/{name}", store.storage
    assert not storage.exists(location)
    storage.write_new(location, b"0123456789")
    assert (storage.read(location), storage.size(location), storage.exists(location)) == (b"0123456789", 10, True)
    assert storage.tail(location, 4) == (b"6789", 10)
    assert storage.tail(location, 40) == (b"0123456789", 10)
    with storage.opened(location) as (file, size):
        assert (size, file.seek(3), file.read(2), file.read()) == (10, 3, b"34", b"56789")
    assert store.names("/deep") == [name]
    storage.delete(location)
    storage.delete(location)
    assert store.names() == []


def test_an_empty_and_a_large_file(store: Store) -> None:
    data = os.urandom(3 * 2**20 + 1)
    store.storage.write_new(f"{store.top}/empty", b"")
    store.storage.write_new(f"{store.top}/large", data)
    assert store.storage.read(f"{store.top}/empty") == b""
    assert store.storage.read(f"{store.top}/large") == data
    with store.storage.opened(f"{store.top}/large") as (file, _):
        file.seek(2**20)
        assert file.read(100) == data[2**20 : 2**20 + 100]


def test_a_missing_file_is_not_found(store: Store) -> None:
    for ask in (store.storage.read, store.storage.size, lambda name: store.storage.tail(name, 8)):
        with pytest.raises(NotFound, match="none does not exist"):
            ask(f"{store.top}/none")


def test_a_file_above_the_limit_is_not_read(store: Store) -> None:
    store.storage.write_new(f"{store.top}/f", bytes(11))
    with pytest.raises(TooLarge):
        store.storage.read(f"{store.top}/f", 10)


def test_a_written_file_is_never_overwritten(store: Store) -> None:
    store.storage.write_new(f"{store.top}/f", b"first")
    with pytest.raises(AlreadyExists, match="exists already"):
        store.storage.write_new(f"{store.top}/f", b"second")
    assert store.storage.read(f"{store.top}/f") == b"first"


def test_one_of_many_writers_wins(store: Store) -> None:
    """S3 of the tests knows no conditional write, so there the last one may win; nowhere are two mixed."""
    start = threading.Barrier(8)

    def write(number: int) -> bool:
        start.wait()
        try:
            store.storage.write_new(f"{store.top}/t/f", str(number).encode() * 5000)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, wins in enumerate(pool.map(write, range(8))) if wins]
    if store.kind != "s3":
        assert len(won) == 1
    assert store.storage.read(f"{store.top}/t/f") in [str(number).encode() * 5000 for number in won]
    assert [entry.rpartition("/")[2] for entry in store.quarantine.names(f"{store.top}/t")] == ["f"]


def test_a_directory_goes_with_all_in_it(store: Store) -> None:
    for name in ("d/a", "d/x/b", "e"):
        store.storage.write_new(f"{store.top}/{name}", b"1")
    store.storage.delete_directory(f"{store.top}/d")
    assert store.names() == ["e"]
    store.storage.delete_directory(f"{store.top}/none")


def test_a_listing_shows_what_hive_reads(store: Store) -> None:
    names = [
        "a%3A b",
        "b",
        "_SUCCESS",
        ".c.crc",
        "_temporary/0/x",
        ".hive-staging_1/x",
        "sub/d",
        "e._COPYING_",
        "empty",
    ]
    for name in names:
        store.storage.write_new(f"{store.top}/p=1/{name}", b"" if name == "empty" else b"12345")
    listing = store.listings.list(f"{store.top}/p=1")
    assert [file.path for file in listing.files] == ["a%3A b", "b"]
    assert {file.size for file in listing.files} == {5}
    assert listing.subdirectories == ("sub",)
    assert listing.is_being_written
    assert listing.may_grow
    assert store.names("/p=1") == ["a%3A b", "b", "sub/d"]
    assert store.listings.list(f"{store.top}/p=2").files == ()


def test_a_directory_tells_that_a_file_came_where_it_has_times(store: Store) -> None:
    store.storage.write_new(f"{store.top}/p/a", b"1")
    before = store.listings.modified_ns(f"{store.top}/p")
    assert (before is None) is (store.kind == "s3")
    store.storage.write_new(f"{store.top}/p/b", b"1")
    if store.kind != "s3":
        assert store.listings.modified_ns(f"{store.top}/p") != before
        assert store.listings.modified_ns(f"{store.top}/none") == 0


def test_the_quarantine_moves_where_the_store_renames(store: Store) -> None:
    quarantine, here, there = store.quarantine, f"{store.top}/t/x", f"{store.top}/q/deep/x"
    store.storage.write_new(here, b"rows")
    (before,) = quarantine.inspect([here])
    assert before is not None
    assert before.bytes == 4
    assert quarantine.can_move(here, f"{store.top}/q") is (store.kind != "s3")
    if store.kind == "s3":
        with pytest.raises(Unavailable, match="cannot rename"):
            quarantine.move(here, there)
        return
    quarantine.move(here, there)
    (after,) = quarantine.inspect([there])
    assert after is not None
    assert after.same_as(before)
    assert quarantine.is_moved(here, there)
    store.storage.write_new(here, b"other")
    with pytest.raises(AlreadyExists, match=r"q/deep/x exists already"):
        quarantine.move(here, there)
    with pytest.raises(NotFound):
        quarantine.move(f"{store.top}/none", f"{store.top}/q/none")
    assert quarantine.inspect([f"{store.top}/none", f"{store.top}/t"]) == [None, None]
    assert quarantine.names(f"{store.top}/none") == []
    assert quarantine.clock(f"{store.top}/q") is not None
