"""Builds that fail, die or come too late, and readers that wait (docs/protocols.md, rules 5.3 and 5.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from catalog.errors import CommitRefused, NotFound, Unavailable
from catalog.files.data_file import AddSnapshot
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.keyed.image_build import BuildState
from catalog.locations.location_rule import FileRule
from catalog.ports.images import AdoptionParts, ImageFiles, ImageParts, LayerBuilder
from firn.protocol.tasks.image import Layer, LayerTask
from server.service.images.images import LAG
from server.service.images.pair import read_pair
from tests.factories import LAKE
from tests.server.clocks import HOUR, Clock
from tests.server.faults import Killed
from tests.server.lake import BASE, ORDERS, altered, set_property
from tests.server.service.images.keyed_lake import KeyedLake
from tests.waiting import LONG, wait_for


@dataclass
class DyingBuilder:
    """A builder whose process or server ends at a moment: before it writes, or after it has written everything."""

    real: LayerBuilder
    error: BaseException
    is_late: bool = False

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        if self.is_late:
            self.real.build(task, check)
        raise self.error

    def stop(self) -> None:
        self.real.stop()


@dataclass
class SlowBuilder:
    """A builder that waits until it may go on."""

    real: LayerBuilder
    may_go: threading.Event = field(default_factory=threading.Event)
    tasks: list[LayerTask] = field(default_factory=list)

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        self.tasks.append(task)
        assert self.may_go.wait(LONG)
        return self.real.build(task, check)

    def stop(self) -> None:
        self.real.stop()


@dataclass
class DyingFiles:
    """Files of images, for a server that dies when it has written the metadata."""

    real: ImageFiles

    def write(self, parts: ImageParts, rule: FileRule) -> tuple[str, Json]:
        self.real.write(parts, rule)
        raise Killed

    def write_adoption(self, parts: AdoptionParts, rule: FileRule) -> AddSnapshot:
        return self.real.write_adoption(parts, rule)

    def remove(self, directory: str, names: Sequence[str]) -> int:
        return self.real.remove(directory, names)


def expire(orders: KeyedLake) -> None:
    """Let all builds be as old as they have to be, and run retention."""
    with orders.lake.services.database.writing() as uow:
        for build in orders.builds():
            uow.images.complete(build.id, build.started_at - timedelta(days=2)) if (
                build.state is BuildState.COMPLETE
            ) else uow.images.give_up(build.id)
    orders.lake.services.images.retention.activate()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_build_that_fails_leaves_nothing(orders: KeyedLake, *, is_late: bool) -> None:
    orders.upsert((1, "a"))
    real = orders.lake.services.images.builder.builder
    failing = orders.images(builder=DyingBuilder(real, Unavailable("no disk"), is_late=is_late))
    with pytest.raises(Unavailable, match="no disk"):
        failing.load(LAKE, ORDERS)
    assert (orders.files(), list(orders.builds())) == (set(), [])
    assert orders.read() == {1: "a"}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_killed_server_leaves_files_that_retention_deletes(orders: KeyedLake, *, is_late: bool) -> None:
    orders.upsert((1, "a"))
    real = orders.lake.services.images.builder
    killed = orders.images(builder=DyingBuilder(real.builder, Killed(), is_late=is_late))
    with pytest.raises(Killed):
        killed.load(LAKE, ORDERS)
    assert [build.state for build in orders.builds()] == [BuildState.BUILDING]
    assert bool(orders.files()) is is_late
    assert orders.read() == {1: "a"}  # the next build has files of its own
    needed = {build.name for build in orders.builds() if build.state is BuildState.COMPLETE}
    dead = next(build for build in orders.builds() if build.state is BuildState.BUILDING)
    with orders.lake.services.database.writing() as uow:
        uow.images.give_up(dead.id)
    orders.lake.services.images.retention.activate()
    assert orders.read() == {1: "a"}
    assert not [name for name in orders.files() if name.startswith(dead.name)]
    assert needed == {build.name for build in orders.builds()}


def test_a_server_killed_after_the_metadata_has_built_the_image(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    with pytest.raises(Killed):
        orders.images(files=DyingFiles(orders.lake.services.images.builder.files)).load(LAKE, ORDERS)
    (dead,) = orders.builds()
    assert orders.read() == {1: "a"}
    (build,) = orders.builds()
    assert (build.id, build.state) == (dead.id, BuildState.COMPLETE)


@pytest.mark.parametrize("rows", [[], [(1, "a")]], ids=["empty table", "one change"])
def test_an_image_that_is_built_twice_is_complete_and_kept(orders: KeyedLake, rows: list[tuple[int, str]]) -> None:
    """The second server began when the first had not ended. What it gives up, the first may be serving already."""
    if rows:
        orders.upsert(*rows)
    service = orders.lake.services.images
    with service.builder.database.reading() as uow:
        pair = read_pair(uow, service.tables, LAKE, ORDERS)
    first, second = service.builder.build(pair), service.builder.build(pair)
    assert second.id == first.id
    assert orders.read() == dict(rows)
    (build,) = orders.builds()
    assert (build.id, build.state) == (first.id, BuildState.COMPLETE)


def test_retention_deletes_what_no_kept_image_needs(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    orders.load()
    orders.upsert((2, "c"))
    orders.load()  # has the first one's layer, too
    first, second = sorted(orders.builds(), key=lambda build: len(build.layers))
    with orders.lake.services.database.writing() as uow:
        uow.images.complete(first.id, first.started_at - timedelta(days=1))
    orders.lake.services.images.retention.activate()
    assert [build.id for build in orders.builds()] == [second.id]
    assert orders.read() == {1: "b", 2: "c"}
    assert len(orders.served()["snapshots"]) == 1  # the removed one is not offered any more
    expire(orders)
    assert (orders.files(), list(orders.builds())) == (set(), [])
    assert orders.read() == {1: "b", 2: "c"}


def test_retention_waits_for_a_build_that_grows_from_an_image(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    orders.load()
    (below,) = orders.builds()
    orders.upsert((2, "c"))
    slow = SlowBuilder(orders.lake.services.images.builder.builder)
    growing = orders.images(builder=slow)
    reader = threading.Thread(target=lambda: growing.load(LAKE, ORDERS))
    reader.start()
    wait_for(lambda: len(slow.tasks) == 1)
    with orders.lake.services.database.writing() as uow:
        uow.images.complete(below.id, below.started_at - timedelta(days=1))
    retention = orders.lake.services.images.retention
    assert retention.activate().removed_images == 0
    slow.may_go.set()
    reader.join(LONG)
    assert retention.activate().removed_images == 1
    assert orders.read() == {1: "b", 2: "c"}
    growing.stop()


def test_images_of_a_dropped_table_go_in_their_time(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    orders.load()
    files = orders.files()
    entry = orders.lake.services.drop(LAKE, ORDERS)
    orders.lake.services.images.retention.activate()
    orders.lake.services.undrops.undrop(LAKE, entry.id)
    assert orders.files() == files
    assert orders.read() == {1: "a"}


def test_metadata_that_somebody_deleted_is_built_again(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    location = orders.load().metadata_location
    assert location is not None
    Path(location.removeprefix("file://")).unlink()
    assert orders.read() == {1: "a"}


def test_an_image_is_kept_for_a_whole_day_after_it_was_last_served(orders: KeyedLake, clock: Clock) -> None:
    clock.stop()
    orders.upsert((1, "a"))
    orders.load()
    retention, removed = orders.lake.services.images.retention, []
    for hours in (2, 23, 4):  # the last read comes after two hours
        clock.wrong += hours * HOUR
        removed.append(retention.activate().removed_images)
        if hours == 2:
            orders.load()
    assert removed == [0, 0, 1]


def test_expiry_keeps_the_snapshots_of_images(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    old = orders.lake.metadata(BASE)["current-snapshot-id"]
    orders.load()
    orders.insert((2, "b"))
    removal = altered(BASE, {"action": "remove-snapshots", "snapshot-ids": [old]})
    lease = orders.lake.lease(JobKind.EXPIRE)
    with pytest.raises(CommitRefused, match=str(old)):
        orders.lake.commit(removal, lease=lease)
    expire(orders)
    orders.lake.commit(removal, lease=lease)


def test_a_reader_that_waits_too_long_gets_the_older_state_and_how_old_it_is(orders: KeyedLake) -> None:
    orders.lake.commit(altered(BASE, set_property("firn.read.max-wait", "1 ms")))
    orders.upsert((1, "a"))
    slow = SlowBuilder(orders.lake.services.images.builder.builder)
    slow.may_go.set()
    waiting = orders.images(builder=slow)
    with pytest.raises(Unavailable, match=r"firn\.read\.max-wait"):
        waiting.load(LAKE, ORDERS)
    wait_for(lambda: any(build.state is BuildState.COMPLETE for build in orders.builds()))
    first = waiting.load(LAKE, ORDERS)
    assert LAG.encode() not in first.text
    slow.may_go.clear()
    orders.upsert((2, "b"))
    answered = _count_older_images()
    late = waiting.load(LAKE, ORDERS)
    assert _count_older_images() == answered + 1
    assert late.metadata_location == first.metadata_location
    assert LAG.encode() in late.text
    orders.lake.commit(altered(BASE, set_property("firn.read.on-timeout", "refuse")))
    with pytest.raises(Unavailable):
        waiting.load(LAKE, ORDERS)
    slow.may_go.set()
    waiting.stop()


def test_readers_that_come_together_share_a_build(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    slow = SlowBuilder(orders.lake.services.images.builder.builder)
    waiting = orders.images(builder=slow)
    seen: list[str | None] = []
    readers = [
        threading.Thread(target=lambda: seen.append(waiting.load(LAKE, ORDERS).metadata_location)) for _ in range(3)
    ]
    for reader in readers:
        reader.start()
    wait_for(lambda: len(slow.tasks) == 1)
    slow.may_go.set()
    for reader in readers:
        reader.join(LONG)
    assert len(seen) == 3
    assert len(set(seen)) == len(slow.tasks) == 1
    waiting.stop()


def test_more_is_pending_than_the_server_may_build(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    small = orders.images(most_pending_bytes=1)
    with pytest.raises(Unavailable, match=r"bytes of changes are pending in db\.orders"):
        small.load(LAKE, ORDERS)
    orders.load()
    orders.upsert((2, "b"))
    assert LAG.encode() in small.load(LAKE, ORDERS).text


def test_a_build_that_fails_serves_no_older_state(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    orders.load()
    orders.upsert((2, "b"))
    real = orders.lake.services.images.builder.builder
    with pytest.raises(Unavailable, match="no disk"):
        orders.images(builder=DyingBuilder(real, Unavailable("no disk"))).load(LAKE, ORDERS)


def test_a_file_that_is_gone_is_told(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    for path in Path(orders.lake.warehouse).rglob("change/data/*.parquet"):
        path.unlink()
    with pytest.raises((NotFound, Unavailable), match="gone"):
        orders.load()


def _count_older_images() -> float:
    return REGISTRY.get_sample_value("firn_older_image_lag_seconds_count") or 0.0
