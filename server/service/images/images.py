"""Serves keyed tables as ordinary Iceberg tables: images that exist, images built while the reader waits, older ones.

A reader sees every commit that was acknowledged before its request, unless building takes longer than
`firn.read.max-wait` (docs/protocols.md#images).
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from catalog.errors import CatalogError, NoSuchTable, NotFound, Unavailable
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot_id
from catalog.keyed.image_build import BuildState, ImageBuild, keep_at_least
from catalog.keyed.spec import KeySpec
from catalog.keyed.streams import list_last_commits
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.images import BuildTooLarge
from catalog.ports.store import UnitOfWork
from catalog.scan.mode import build_planning_config
from catalog.tables.relation import RelationKind
from server.prometheus import IMAGE_FAILURES, IMAGE_SECONDS, OLDER_IMAGE_LAG
from server.service.commit.idempotency import Idempotency, remember
from server.service.images.builder import ImageBuilder
from server.service.images.documents import load_image
from server.service.images.image_jobs import ImageJobs
from server.service.images.pair import Pair, read_pair
from server.service.images.retention import ImageRetention
from server.service.tables.keyed_tables import KeyedTables, parse_pinned_image
from server.service.tables.tables import Loaded, TableDefinition

THREADS = 2
MAX_TRIES = 4
"""The interval at which a reader checks a build of another server."""
LAG = "firn.image.lag-ms"
"""A property of an older image: for how long at most there have been newer commits."""


@dataclass(frozen=True)
class Images:
    """Loads keyed tables. Builds run in threads of their own, one per table at a time."""

    tables: KeyedTables
    builder: ImageBuilder
    most_waiting: int
    _running: dict[RelationId, Future[ImageBuild]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: threading.Semaphore = field(init=False)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "image"))

    def __post_init__(self) -> None:
        """Bound the readers that wait: the threads of requests are few."""
        object.__setattr__(self, "_waiting", threading.Semaphore(self.most_waiting))

    @property
    def jobs(self) -> ImageJobs:
        """Builds by optimizers, where an image is too large for the server."""
        return ImageJobs(self.tables, self.builder)

    @property
    def retention(self) -> ImageRetention:
        """Deletes the files of images whose time is over."""
        return ImageRetention(self.builder.database, self.builder.metadata, self.builder.files)

    def create(
        self, catalog: CatalogName, definition: TableDefinition, spec: KeySpec, *, idempotency: Idempotency | None
    ) -> None:
        """Create a keyed table; `idempotency` remembers where its first image will be. See KeyedTables.create."""

        def remember_image(uow: UnitOfWork, _: RelationId) -> None:
            pair = read_pair(uow, self.tables, catalog, definition.name)
            remember(uow, idempotency, [pair.key.metadata_location(pair.relation.location.rstrip("/"))])

        self.tables.create(catalog, definition, spec, also=remember_image)

    def load_again(self, catalog: CatalogName, name: TableName, location: str) -> Loaded:
        """The image at a location that a request has remembered; the newest one when it was never built."""
        try:
            document = self.builder.metadata.load(location)
        except NotFound:
            return self.load(catalog, name)
        config = build_planning_config(RelationKind.TABLE, document.parsed)
        return Loaded(metadata_location=location, text=document.text, config=config)

    def load(self, catalog: CatalogName, name: TableName) -> Loaded:
        """A keyed table's newest image.

        Raises NoSuchTable when there is no such keyed table, and Unavailable when there is no image and none can be
        built in time.
        """
        pair, build = self._find(catalog, name)
        deadline = time.monotonic() + pair.policy["firn.read.max-wait"].total_seconds()
        failure: CatalogError | None = None
        for _ in range(MAX_TRIES):
            if build is not None and (loaded := self._serve(pair, build)) is not None:
                return loaded
            failure, may_help = self._wait_for_build(pair, deadline)
            if isinstance(failure, BuildTooLarge):
                self.jobs.request(pair, f"readers wait: {failure.message}")
            if not may_help:
                break
            pair, build = self._find(catalog, name)
        return self._serve_older(pair, failure)

    def _find(self, catalog: CatalogName, name: TableName) -> tuple[Pair, ImageBuild | None]:
        """The pair that readers are to see now, and its image if there is one."""
        with self.builder.database.reading() as uow:
            pair = read_pair(uow, self.tables, catalog, name)
            return pair, uow.images.find(pair.relation.id, pair.key.etag)

    def load_pinned(self, catalog: CatalogName, name: TableName) -> Loaded | None:
        """An image under its pinned name, as long as it is kept; None when the name is not that of a pinned image.

        Raises NoSuchTable when there is no such image any more.
        """
        parsed = parse_pinned_image(name)
        if parsed is None:
            return None
        owner, snapshot_id = parsed
        with self.builder.database.reading() as uow:
            relation = uow.relations.find(catalog, owner)
            if relation is None or relation.kind is not RelationKind.KEYED:
                return None
            pair = read_pair(uow, self.tables, catalog, owner)
            build = uow.images.find_snapshot(relation.id, snapshot_id, uow.now())
        loaded = None if build is None else self._serve(pair, build)
        if loaded is None:
            raise NoSuchTable(
                f"Table does not exist: {name}", hint=f"the server no longer keeps this state: read {owner} again"
            )
        return loaded

    def stop(self) -> None:
        """End the builds; the next server's reads begin them anew."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.builder.builder.stop()  # which ends the running ones
        self._pool.shutdown(wait=True)
        self.builder.builder.stop()

    def _serve(self, pair: Pair, build: ImageBuild, *, lag: timedelta | None = None) -> Loaded | None:
        """The image of a build; None, and the build is given up, when somebody has deleted its metadata."""
        database = self.builder.database
        try:
            document = load_image(self.builder.metadata, build)
        except NotFound:
            with database.writing() as uow:
                uow.images.give_up(build.id)
            return None
        snapshot_ids = [snapshot["snapshot-id"] for snapshot in document.parsed["snapshots"]]
        with database.reading() as uow:
            now = uow.now()
            kept = set(uow.images.kept(pair.relation.id, snapshot_ids, now))
        self._keep(pair, build, now)
        text, gone = document.text, {*snapshot_ids[:-1]} - kept
        shown = list_last_commits(document.parsed, pair.pin.change)
        if gone or lag is not None or shown is not document.parsed:
            text = orjson.dumps(_describe_now(shown, gone, lag))
        config = build_planning_config(RelationKind.TABLE, document.parsed)
        state = "" if lag is None else str(current_snapshot_id(pair.pin.change))
        return Loaded(metadata_location=build.metadata_location, text=text, config=config, state=state)

    def _keep(self, pair: Pair, build: ImageBuild, now: datetime) -> None:
        """Keep the image from now on. The server stores this only from time to time, because readers load it often."""
        keep = pair.policy["firn.read.keep"]
        if build.keep_until < now + keep:
            with self.builder.database.writing() as uow:
                uow.images.keep(build.id, keep_at_least(keep, now))

    def _wait_for_build(self, pair: Pair, deadline: float) -> tuple[CatalogError | None, bool]:
        """Wait until the table's running build ends, or one of this pair; returns why it failed, and whether the
        image may be there now, or after another try.
        """
        if not self._waiting.acquire(blocking=False):
            return Unavailable("too many readers wait for tables to be merged", hint="Try again in a second."), False
        running, is_own = self._run_build(pair)
        try:
            running.result(max(0.0, deadline - time.monotonic()))
        except FutureTimeoutError:
            return None, False
        except NotFound as error:  # a file of the pair: the table has moved on
            return error, True
        except CatalogError as error:
            return error, not is_own
        finally:
            self._waiting.release()
        return None, True

    def _run_build(self, pair: Pair) -> tuple[Future[ImageBuild], bool]:
        """The build of the table that runs, or a new one of this pair; and whether it is new."""
        relation_id = pair.relation.id
        with self._lock:
            running = self._running.get(relation_id)
            if running is not None:
                return running, False
            new = self._running[relation_id] = self._pool.submit(self._build, pair)
        return new, True

    def _build(self, pair: Pair) -> ImageBuild:
        try:
            with IMAGE_SECONDS.time(), IMAGE_FAILURES.count_exceptions():
                return self.builder.build(pair)
        finally:
            with self._lock:
                self._running.pop(pair.relation.id, None)

    def _serve_older(self, pair: Pair, failure: CatalogError | None) -> Loaded:
        """The newest image that is complete, where the table's policy allows it.

        Only slow and large builds are a reason to serve it. A failure would go unnoticed.
        """
        may_serve = failure is None or isinstance(failure, BuildTooLarge)
        if may_serve and pair.policy["firn.read.on-timeout"] == "older":
            with self.builder.database.reading() as uow:
                older, now = _find_newest(uow, pair.relation.id), uow.now()
            lag = timedelta() if older is None else max(timedelta(), now - older.started_at)
            if older is not None and (loaded := self._serve(pair, older, lag=lag)) is not None:
                OLDER_IMAGE_LAG.observe(lag.total_seconds())
                return loaded
        name = pair.relation.name
        if failure is None:
            raise Unavailable(f"merging {name} for its readers takes longer than firn.read.max-wait", hint="Try again.")
        raise Unavailable(f"{name} cannot be merged for its readers: {failure.message}", hint=failure.hint)


def _find_newest(uow: UnitOfWork, relation_id: RelationId) -> ImageBuild | None:
    now = uow.now()
    kept = (build for build in uow.images.of_table(relation_id) if build.keep_until > now)
    return next((build for build in kept if build.state is BuildState.COMPLETE), None)


def _describe_now(metadata: Json, gone: set[int], lag: timedelta | None) -> dict[str, Any]:
    """The metadata without snapshots whose files are gone, and with the lag of an older image."""
    snapshots = [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] not in gone]
    described = {
        **metadata,
        "snapshots": snapshots,
        "snapshot-log": [entry for entry in metadata["snapshot-log"] if entry["snapshot-id"] not in gone],
    }
    if lag is not None:
        described["properties"] = {**metadata["properties"], LAG: str(int(lag.total_seconds() * 1000))}
    return described
