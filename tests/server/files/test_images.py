"""Images on disk, read back by PyIceberg as an ordinary table (docs/protocols.md#images)."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import AlreadyExists, NotFound
from tests.server.files.keyed_stores import KeyedStores, read_rows


def row(id_: int, qty: int | None, day: str, name: str = "n") -> dict[str, object]:
    return {"id": id_, "qty": qty, "name": name, "day": day}


def change(id_: int, qty: int | None, day: str, op: str = "U") -> dict[str, object]:
    return {**row(id_, qty, day), "_op": op}


@pytest.fixture(params=[(2, "2"), (3, "2"), (2, "3"), (3, "3")], ids=lambda p: f"v{p[0]} base, v{p[1]} image")
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> KeyedStores:
    version, image = request.param
    stores = KeyedStores(tmp_path, version=version)
    stores.set_property("firn.read.format-version", image)
    stores.write_base("d1", [row(1, 10, "d1"), row(2, 20, "d1"), row(3, 30, "d1")])
    stores.write_base("d2", [row(4, 40, "d2"), row(5, 50, "d2")], name="000001_0")
    stores.write_changes([change(2, 21, "d1"), change(3, None, "d1", "D"), change(6, 60, "d2", "I")])
    stores.write_changes([change(2, 22, "d2"), change(5, 51, "d2")])
    return stores


MERGED = [row(1, 10, "d1"), row(2, 22, "d2"), row(4, 40, "d2"), row(5, 51, "d2"), row(6, 60, "d2")]


def test_an_image_is_the_merged_table(stores: KeyedStores) -> None:
    location, metadata = stores.write_image()
    assert sorted(read_rows(location), key=lambda r: r["id"]) == MERGED
    assert metadata["table-uuid"] == str(stores.uuid)
    assert location.startswith(f"{stores.root}/metadata/00001-")
    assert len(metadata["snapshots"]) == 1
    summary = metadata["snapshots"][0]["summary"]
    assert summary["total-records"] == str(5 + 3)  # readers that count without the deletes count hidden rows, too
    assert (summary["total-position-deletes"], summary["total-data-files"]) == ("3", "3")


def test_filters_prune_files_and_find_the_same_rows(stores: KeyedStores) -> None:
    location, _ = stores.write_image()
    assert read_rows(location, row_filter="day = 'd1'") == [row(1, 10, "d1")]
    assert read_rows(location, row_filter="qty > 50") == [row(5, 51, "d2"), row(6, 60, "d2")]
    assert read_rows(location, row_filter="id = 3") == []


def test_an_image_is_written_once(stores: KeyedStores) -> None:
    first, metadata = stores.write_image()
    with pytest.raises(AlreadyExists):
        stores.write_image()
    stores.set_property("comment", "other metadata of base")
    Path(stores.base.metadata_file).unlink()
    stores.base.commits += 1
    second, other = stores.write_image()
    assert second != first
    assert other["properties"]["comment"] == "other metadata of base"
    assert metadata["current-snapshot-id"] != other["current-snapshot-id"]


def test_a_builder_that_dies_leaves_no_metadata_and_does_not_hinder_the_next(
    stores: KeyedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise NotFound("a pack is gone")

    with monkeypatch.context() as patched:
        patched.setattr("server.files.footers.Footers.read_all", lose)
        with pytest.raises(NotFound):
            stores.write_image()
    assert not (stores.root / "metadata").exists()
    location, _ = stores.write_image()
    assert len(read_rows(location)) == len(MERGED)


def test_an_image_over_an_empty_base(tmp_path: Path) -> None:
    stores = KeyedStores(tmp_path)
    stores.base.commit()
    stores.write_changes([change(1, 1, "d1", "I"), change(2, 2, "d2", "I")])
    location, _ = stores.write_image()
    assert read_rows(location) == [row(1, 1, "d1"), row(2, 2, "d2")]


def test_merged_changes_do_not_count(stores: KeyedStores) -> None:
    stores.watermark = 1
    location, _ = stores.write_image()
    assert {r["id"]: r["qty"] for r in read_rows(location)} == {1: 10, 2: 22, 3: 30, 4: 40, 5: 51}


def test_an_image_grows_by_layers(stores: KeyedStores) -> None:
    image = stores.write_image()
    stores.write_changes([change(1, 11, "d1"), change(6, None, "d2", "D"), change(7, 70, "d3", "I")])
    image = stores.write_image(image, since=2)  # hides a row of base, one of the first pack, and adds a partition
    stores.write_changes([change(7, 71, "d1"), change(2, 23, "d1"), change(6, 61, "d2", "I")])
    location, metadata = stores.write_image(image, since=3)
    grown = read_rows(location)
    assert {r["id"]: (r["qty"], r["day"]) for r in grown} == {
        1: (11, "d1"),
        2: (23, "d1"),
        4: (40, "d2"),
        5: (51, "d2"),
        6: (61, "d2"),
        7: (71, "d1"),
    }
    Path(location.removeprefix("file:")).unlink()  # the built one has the same name: it is the image of the same pair
    built, other = stores.write_image()
    assert read_rows(built) == grown
    assert (built, other["current-snapshot-id"]) == (location, metadata["current-snapshot-id"])
