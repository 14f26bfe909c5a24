"""Files of other writers among those of images: orphan removal takes them, and no file of an image."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from catalog.errors import Conflict, Invalid
from catalog.removal.orphan_removal import KeepReason
from server.service.orphans.orphan_removal import QuarantinedBatch
from tests.factories import LAKE
from tests.server.lake import BASE, ORDERS, Lake, altered, set_property
from tests.server.service.dropping import path_of
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.statements import plan_statement
from tests.server.service.orphans.removing import age, aside, begun, ended, job_of, names, overdue, proposed

DAY = 86_400.0


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    """A keyed table with an image, whose files are old."""
    lake.create_keyed()
    lake.commit(altered(BASE, set_property("firn.read.max-wait", "60 s")))
    orders = KeyedLake(lake)
    orders.insert((1, "a"), (2, "b"))
    orders.upsert((1, "c"))
    assert orders.read() == {1: "c", 2: "b"}
    age(list_files(orders))
    yield orders
    lake.services.images.stop()
    lake.services.image_writes.stop()


def merged(orders: KeyedLake) -> Path:
    with orders.lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, ORDERS)
    assert relation is not None
    return path_of(relation.location) / "merged"


def list_files(orders: KeyedLake) -> Sequence[Path]:
    """All files of the table: of both stores, and of images, without their metadata."""
    root = merged(orders).parent
    return sorted(path for path in root.rglob("*") if path.is_file() and path.parent != root / "metadata")


def leave_deletes(orders: KeyedLake, days: float = 10) -> Path:
    """A file of position deletes, named as DuckDB names them."""
    path = merged(orders) / f"{uuid4()}-deletes.parquet"
    path.write_bytes(b"positions")
    age([path], days * DAY)
    return path


def run(orders: KeyedLake) -> QuarantinedBatch:
    """A job that proposes every file."""
    lease = begun(orders.lake, ORDERS)
    judged = proposed(orders.lake, lease, list_files(orders))
    ended(orders.lake, lease)
    return judged


def test_the_job_lists_the_directory_of_images(orders: KeyedLake) -> None:
    job = job_of(orders.lake, begun(orders.lake, ORDERS))
    with orders.lake.services.database.reading() as uow:
        task = orders.lake.services.orphans.task(uow, job, uow.relations.get(job.relation_id))
    assert task.images == merged(orders).as_uri()


def test_old_delete_files_go_and_images_stay(orders: KeyedLake) -> None:
    """The delete files stayed until somebody removed the directory."""
    left, young = leave_deletes(orders), leave_deletes(orders, days=2)
    before = set(list_files(orders)) - {left}
    judged = run(orders)
    assert (names(judged), judged.kept[KeepReason.YOUNG]) == ({left.name}, 1)
    assert set(list_files(orders)) == before
    assert young.exists()
    assert orders.read() == {1: "c", 2: "b"}
    assert overdue(orders.lake, ORDERS).deleted_files == 1
    assert aside(orders.lake) == set()


def test_the_deletes_of_a_statement_go_after_it_and_its_retry_is_answered(orders: KeyedLake) -> None:
    sent = plan_statement(orders, deleted=[2], directory=merged(orders).as_uri())
    written = {path for path in merged(orders).iterdir() if path.stat().st_mtime > time.time() - DAY}
    assert orders.send(sent)
    assert orders.read() == {1: "c"}
    age(list_files(orders))
    assert {path.name for path in written} <= names(run(orders))
    assert orders.send(sent)
    assert orders.read() == {1: "c"}


def test_a_statement_whose_deletes_are_gone_is_refused_and_changes_nothing(orders: KeyedLake) -> None:
    sent = plan_statement(orders, deleted=[2], directory=merged(orders).as_uri())
    age(list_files(orders))
    run(orders)
    with pytest.raises(Invalid, match="is gone"):
        orders.send(sent)
    assert orders.read() == {1: "c", 2: "b"}


def test_layers_of_a_removed_image_stay_while_a_later_image_shows_them(orders: KeyedLake) -> None:
    (first,) = orders.builds()
    orders.upsert((3, "d"))
    assert orders.read() == {1: "c", 2: "b", 3: "d"}
    second = orders.builds()[0]
    assert second.layers == (first.name, second.name)
    with orders.lake.services.database.writing() as uow:
        uow.images.remove(first.id)
    age(list_files(orders))
    assert names(run(orders)) == set()
    assert orders.read() == {1: "c", 2: "b", 3: "d"}


def test_files_of_a_build_that_the_database_has_forgotten_go(orders: KeyedLake) -> None:
    """An optimizer that had lost its lease wrote on after retention had removed the build."""
    (build,) = orders.builds()
    path = merged(orders) / f"{build.name.replace(build.name[:8], '00000000')}-0.parquet"
    path.write_bytes(b"rows")
    age([path])
    assert names(run(orders)) == {path.name}


def test_metadata_of_another_table_among_images_ends_the_job(orders: KeyedLake) -> None:
    left = leave_deletes(orders)
    foreign = merged(orders) / "theirs" / "metadata" / "v7.metadata.json"
    foreign.parent.mkdir(parents=True)
    foreign.write_text('{"table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}')
    lease = begun(orders.lake, ORDERS)
    locations = [path.as_uri() for path in list_files(orders)]
    with pytest.raises(Conflict, match="its directory holds the metadata of another table"):
        orders.lake.services.orphans.take(lease, locations, [foreign.as_uri()])
    assert left.exists()
