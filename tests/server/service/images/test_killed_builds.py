"""Random histories in which builders, servers and optimizers die between any two files of images.

Whatever has died: a reader gets the rows of a dict, every image that is kept shows what it showed, each file belongs to
a build that the database knows, and retention removes all of it in the end (docs/protocols.md, rules 5.3 to 5.6, 5.12).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.io import load_file_io
from pyiceberg.table import StaticTable

from catalog.errors import CatalogError, Conflict, Unavailable
from catalog.jobs import leases
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.image_build import BuildState, ImageBuild
from firn.protocol.tasks.image import BegunImage, CompleteRequest
from optimizer.client import ServerApi, connect
from optimizer.images.pair import build_from_task
from optimizer.jobs import image
from server.service.images.pair import read_pair
from server.service.images.retention import remove_build
from tests.factories import LAKE
from tests.server.clocks import Clock
from tests.server.faults import Killed
from tests.server.lake import BASE, ORDERS, Lake, altered, set_property
from tests.server.listening import listening
from tests.server.service.dropping import path_of
from tests.server.service.hive.mortal import Fuse
from tests.server.service.images import test_adoption as adoptions
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.mortal_builds import DataFiles, Server, data_files  # noqa: F401 - a fixture

STEPS = int(os.environ.get("STEPS", "0")) or (400 if "SOAK_SECONDS" in os.environ else 60)
SEED = int(os.environ.get("HISTORY_SEED", "0")) or (random.SystemRandom().getrandbits(32) if STEPS > 60 else 7)
LATEST_MOMENT = 24
"""A build has about 20 moments at which its server may die."""
Rows = dict[int, str | None]


@dataclass
class History:
    """One keyed table, a dict with its rows, and what each image is to show, by its digest."""

    orders: KeyedLake
    api: ServerApi
    clock: Clock
    files: DataFiles
    random: random.Random
    rows: Rows = field(default_factory=dict)
    shown: dict[str, Rows] = field(default_factory=dict)
    files_of: dict[str, set[Path]] = field(default_factory=dict)
    """The files of each image, by the name of its build. Its rows are checked once: files never change."""
    met: Counter[str] = field(default_factory=Counter)
    _last_key: int = 1

    @property
    def lake(self) -> Lake:
        return self.orders.lake

    def run(self, steps: int) -> None:
        """Do random steps, check after each, and clear up at the end."""
        actions: dict[Callable[[], None], int] = {
            self.insert: 2, self.upsert: 6, self.delete: 2, self.read: 8, self.read_during: 3, self.build_by_job: 3,
            self.adopt: 1, self.remove_images: 3, self.wait: 2,
        }  # fmt: skip
        for _ in range(steps):
            (action,) = self.random.choices(list(actions), list(actions.values()))
            self.expect()
            action()
            self.expect()
            self.check()
        self.check_reader()
        self.clear_up()

    def insert(self) -> None:
        """Append new keys to base."""
        rows = [(self._new_key(), self._new_note()) for _ in range(self.random.randint(1, 3))]
        self.orders.insert(*rows)
        self.rows.update(rows)

    def upsert(self) -> None:
        """Change keys, or add them."""
        keys = {self._any_key() if self.random.random() < 0.7 else self._new_key() for _ in range(3)}
        rows = [(key, self._new_note()) for key in sorted(keys)]
        self.orders.upsert(*rows)
        self.rows.update(rows)

    def delete(self) -> None:
        key = self._any_key()
        self.orders.delete(key)
        self.rows.pop(key, None)

    def read(self) -> None:
        """Read from a server that may die, and whose builder may die."""
        server = self._mortal_server()
        with server.images() as images:
            try:
                rows = self.orders.read(images.load(LAKE, ORDERS))
            except Killed:
                self.met["server died"] += 1
                return
            except Unavailable:
                assert server.builders.left is not None
                assert server.builders.left <= 0
                self.met["builder died"] += 1
                return
        assert rows == self.rows

    def read_during(self) -> None:
        """Read while another server reads, or while the build takes so long that retention gives it up."""
        server = Server(self.lake, self.files)
        others = self.random.choice([self._read_elsewhere, self._take_hours])
        server.fuse.meanwhile(self.random.randint(1, LATEST_MOMENT), others)
        with server.images() as images:
            try:
                rows = self.orders.read(images.load(LAKE, ORDERS))
            except Unavailable:
                self.met["build given up"] += 1
                return
        assert rows == self.rows

    def build_by_job(self) -> None:
        """An optimizer builds. It may die, and so may the server, before or after it completes the image."""
        lease = self.lake.lease(JobKind.IMAGE, committing=False)
        with suppress(Killed):
            begun = self._mortal_server().jobs.begin(lease)
            if begun.layer is not None:
                self._build_layer(lease, begun)
        self.lake.services.jobs.cancel(lease.job_id)

    def _build_layer(self, lease: Lease, begun: BegunImage) -> None:
        assert begun.layer is not None
        assert begun.build is not None
        with self.files.die_by(self._maybe_fuse(6)):
            layer = build_from_task(begun.layer, lambda _: None)
        request = CompleteRequest(build=begun.build, watermark=begun.layer.watermark, layer=layer)
        if self.random.random() < 0.2:
            self._take_hours()
        try:
            self._mortal_server().jobs.complete(lease, request)
        except Killed:
            self.met["server died"] += 1
            with suppress(Conflict, Unavailable):  # the optimizer has no answer, and asks again
                Server(self.lake, self.files).jobs.complete(lease, request)
        except (Conflict, Unavailable) as error:
            self.met["build given up"] += 1
            if isinstance(error, Conflict):
                image.delete_layer(load_file_io(begun.layer.file_io, begun.layer.directory), layer)
            return
        self.met["built by a job"] += 1

    def adopt(self) -> None:
        """Merge by adoption, with an optimizer that may die."""
        if not self.lake.keyed().pending_rows:
            return
        lease = adoptions.lease_merge(self.orders, self.api)
        with self.files.die_by(self._maybe_fuse(4)), suppress(Killed):
            self.api.report(lease, adoptions.run(self.api, lease), [])
            self.met["adopted"] += 1
            return
        self.met["optimizer died"] += 1
        self.lake.services.jobs.cancel(leases.Lease.parse(lease.lease).job_id)

    def remove_images(self) -> None:
        """Retention, on a server that may die."""
        if self.random.random() < 0.5:
            self.wait()
        with suppress(Killed):
            self.met["removed"] += (
                Server(self.lake, self.files, self._maybe_fuse(12)).retention.activate().removed_images
            )

    def wait(self) -> None:
        """Let time pass, so that images and builds expire."""
        self.clock.wrong += timedelta(hours=self.random.choice([1, 2, 13, 25]))

    def check(self) -> None:
        """No file is unknown, and each image that is kept shows its rows."""
        builds = self.orders.builds()
        names = tuple(f"{name}-" for build in builds for name in build.layers)
        locations = {build.metadata_location.rpartition("/")[2] for build in builds}
        unknown = {name for name in self.orders.files() - locations if not name.startswith(names)}
        assert not unknown, f"no build has {unknown}"
        for build in builds:
            if build.state is BuildState.COMPLETE and build.keep_until > self.clock.now():
                self._check_image(build)

    def _check_image(self, build: ImageBuild) -> None:
        if build.name not in self.files_of:
            table = StaticTable.from_metadata(build.metadata_location)
            rows = [(row["id"], row["note"]) for row in table.scan().to_arrow().to_pylist()]
            assert sorted(rows) == sorted(self.shown[build.digest].items())
            self.files_of[build.name] = {path_of(build.metadata_location), *list_files(table)}
        gone = [path for path in self.files_of[build.name] if not path.exists()]
        assert not gone, f"an image that is kept has lost {gone}"

    def check_reader(self) -> None:
        """A server that works shows the rows."""
        self.expect()
        with Server(self.lake, self.files).images() as images:
            assert self.orders.read(images.load(LAKE, ORDERS)) == self.rows

    def clear_up(self) -> None:
        """When nobody has read for long, retention leaves nothing; the next reader gets all rows."""
        self.clock.wrong += timedelta(days=60)
        status = Server(self.lake, self.files).retention.activate()
        assert status.failed == 0
        assert (list(self.orders.builds()), self.orders.files()) == ([], set())
        self.check_reader()

    def forget_images(self) -> None:
        """Remove complete images, so that the next reader builds anew. What dead builds left stays."""
        with self.lake.database.real.writing() as uow:
            complete = [build for build in self.orders.builds() if build.state is BuildState.COMPLETE]
            for build in complete:
                uow.images.give_up(build.id)
        builder = Server(self.lake, self.files).builder
        for build in complete:
            remove_build(builder.database, builder.metadata, builder.files, build)

    def _read_elsewhere(self) -> None:
        with suppress(CatalogError):
            self.check_reader()

    def _take_hours(self) -> None:
        self.clock.wrong += timedelta(hours=2)
        Server(self.lake, self.files).retention.activate()

    def _mortal_server(self) -> Server:
        victim, moment = self.random.choice(["nobody", "server", "builder"]), self.random.randint(1, LATEST_MOMENT)
        server = Server(self.lake, self.files, outlives=self.random.random() < 0.3)
        if victim == "server":
            server.fuse.left = moment
        if victim == "builder":
            server.builders.left = self.random.randint(1, 5)
        return server

    def _maybe_fuse(self, latest: int) -> Fuse:
        return Fuse(self.random.choice([None, self.random.randint(1, latest)]))

    def expect(self) -> None:
        """Note down what an image of the newest pair is to show."""
        with self.lake.database.real.reading() as uow:
            pair = read_pair(uow, self.lake.services.images.tables, LAKE, ORDERS)
        self.shown[pair.key.etag] = dict(self.rows)

    def _any_key(self) -> int:
        return self.random.randint(0, self._last_key)

    def _new_key(self) -> int:
        self._last_key += 1
        return self._last_key

    def _new_note(self) -> str:
        return f"{self.random.getrandbits(20):x}"


def list_files(table: StaticTable) -> Iterator[Path]:
    """All files that a reader of the table opens."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return
    yield path_of(snapshot.manifest_list)
    for manifest in snapshot.manifests(table.io):
        yield path_of(manifest.manifest_path)
        yield from (path_of(entry.data_file.file_path) for entry in manifest.fetch_manifest_entry(table.io))


@pytest.fixture
def history(lake: Lake, clock: Clock, data_files: DataFiles, request: pytest.FixtureRequest) -> Iterator[History]:  # noqa: F811
    base, read = request.param
    lake.create_keyed(ORDERS, **{"format-version": base})
    lake.commit(
        altered(BASE, set_property("firn.read.format-version", read), set_property("firn.read.max-wait", "60 s"))
    )
    with listening(lake.client.app) as url:
        yield History(KeyedLake(lake), connect(url), clock, data_files, random.Random(SEED))
    lake.services.images.stop()


@pytest.mark.parametrize("history", [("2", "2"), ("3", "2"), ("3", "3")], ids="-".join, indirect=True)
def test_histories(history: History) -> None:
    print(f"HISTORY_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    history.run(STEPS)
    assert min(history.met[event] for event in ("server died", "builder died", "built by a job", "removed"))


@pytest.mark.parametrize("history", [("2", "2")], ids="-".join, indirect=True)
@pytest.mark.parametrize("state", ["empty", "from base", "layer"])
def test_a_server_may_die_at_any_moment_of_a_build(history: History, state: str) -> None:
    """Retention is late: the next builds meet all that the dead ones left."""
    if state != "empty":
        history.insert()
        history.upsert()
    for moment in count(1):
        if state == "layer":
            history.check_reader()
            history.upsert()
        history.expect()
        server = Server(history.lake, history.files, Fuse(moment))
        is_dead = False
        with server.images() as images:
            try:
                images.load(LAKE, ORDERS)
            except Killed:
                is_dead = True
        history.check()
        if not is_dead:
            break
        history.check_reader()
        history.check()
        if state != "layer":
            history.forget_images()
    assert moment > 5
    history.clear_up()
