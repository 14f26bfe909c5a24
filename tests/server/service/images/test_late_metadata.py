"""Metadata of an image that appears after its build was given up, or that another server has written again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from catalog.errors import Unavailable
from catalog.files.data_file import AddSnapshot
from catalog.iceberg.json import Json
from catalog.locations.location_rule import FileRule
from catalog.ports.images import AdoptionParts, ImageFiles, ImageParts
from firn.protocol.tasks.image import Layer, LayerTask
from optimizer.images.pair import build_from_task
from server.files.storage import Storage
from server.service.images.images import Images
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.tables import Loaded
from tests.factories import LAKE
from tests.server.lake import ORDERS
from tests.server.service.images.keyed_lake import KeyedLake


@dataclass
class LateFiles:
    """Files of images on a file system whose answer comes late: the rename of the metadata happens when it is told."""

    real: ImageFiles
    renames: list[tuple[Path, Path]] = field(default_factory=list)

    def write(self, parts: ImageParts, rule: FileRule) -> tuple[str, Json]:
        location, _ = self.real.write(parts, rule)
        path = Path(location.removeprefix("file://"))
        hidden = path.rename(path.with_name(f".{path.name}.tmp"))
        self.renames.append((hidden, path))
        raise Unavailable("no answer within 60 s")

    def write_adoption(self, parts: AdoptionParts, rule: FileRule) -> AddSnapshot:
        return self.real.write_adoption(parts, rule)

    def remove(self, directory: str, names: Sequence[str]) -> int:
        return self.real.remove(directory, names)

    def answer(self) -> Path:
        ((hidden, path),) = self.renames
        return hidden.rename(path)


class DirectBuilder:
    """A builder in this process."""

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        return build_from_task(task, check)

    def stop(self) -> None:
        """Nothing runs on."""


@pytest.fixture
def server(orders: KeyedLake) -> Iterator[Images]:
    service = orders.images(builder=DirectBuilder())
    yield service
    service.stop()


def late_metadata(orders: KeyedLake) -> Path:
    """Metadata of an image whose build was given up, and whose other files are gone."""
    late = LateFiles(orders.lake.services.images.builder.files)
    service = orders.images(builder=DirectBuilder(), files=late)
    with pytest.raises(Unavailable, match="no answer"):
        service.load(LAKE, ORDERS)
    service.stop()
    assert list(orders.builds()) == []
    return late.answer()


def manifest_list(loaded: Loaded) -> str:
    return str(json.loads(loaded.text)["snapshots"][-1]["manifest-list"])


def test_metadata_that_appears_late_is_not_served(orders: KeyedLake, server: Images) -> None:
    """It names files that are gone. The next build deletes it, and the one after it writes its own."""
    orders.upsert((1, "a"))
    late_metadata(orders)
    with pytest.raises(Unavailable, match="is being removed"):
        server.load(LAKE, ORDERS)
    loaded = server.load(LAKE, ORDERS)
    (build,) = orders.builds()
    assert build.name in manifest_list(loaded)
    assert orders.read(loaded) == {1: "a"}


def test_a_creation_that_is_repeated_may_answer_with_metadata_that_appeared_late(
    orders: KeyedLake, server: Images
) -> None:
    """A new table is empty, so its image has no files but the metadata: whoever wrote it, it is right."""
    path = late_metadata(orders)
    again = server.load_again(LAKE, ORDERS, path.as_uri())
    assert json.loads(again.text)["snapshots"] == []
    with pytest.raises(Unavailable, match="is being removed"):
        server.load(LAKE, ORDERS)
    assert server.load(LAKE, ORDERS).metadata_location == path.as_uri()


@pytest.mark.parametrize("grows", [False, True], ids=["read", "grown from"])
def test_a_server_notices_that_another_has_built_an_image_again(
    orders: KeyedLake, server: Images, *, grows: bool
) -> None:
    """Both builds have one location, and this server has read the first one's metadata."""
    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    first = manifest_list(server.load(LAKE, ORDERS))
    other = orders.images(builder=DirectBuilder(), metadata=MetadataFiles(Storage()))
    with orders.lake.services.database.writing() as uow:
        for build in orders.builds():
            uow.images.complete(build.id, build.started_at - timedelta(days=2))
    assert other.retention.activate().removed_images == 1
    second = manifest_list(other.load(LAKE, ORDERS))
    other.stop()
    assert first != second
    if grows:
        orders.upsert((2, "c"))
        assert orders.read(server.load(LAKE, ORDERS)) == {1: "b", 2: "c"}
    else:
        assert manifest_list(server.load(LAKE, ORDERS)) == second


def test_an_image_without_its_metadata_is_not_built_upon(orders: KeyedLake, server: Images) -> None:
    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    location = server.load(LAKE, ORDERS).metadata_location
    assert location is not None
    Path(location.removeprefix("file://")).unlink()
    orders.upsert((2, "c"))
    assert orders.read(server.load(LAKE, ORDERS)) == {1: "b", 2: "c"}
