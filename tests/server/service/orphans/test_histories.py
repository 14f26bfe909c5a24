"""Random files, refs, ages, commits, jobs and kills: no needed and no young file is ever moved, and none is lost."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from urllib.parse import unquote

import fastavro
import pytest

from catalog.iceberg.json import Json
from catalog.names import TableName
from firn.protocol.orphans import BatchState
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import PLAIN, Lake, altered
from tests.server.service.dropping import Fuse, append_files, files_below, path_of
from tests.server.service.orphans.dying import dying_orphans
from tests.server.service.orphans.removing import (
    age,
    aside,
    batches,
    begun,
    everything,
    find_published_location,
    proposed,
    refer_to,
    relation_id,
    stray,
)

STEPS = int(os.environ.get("FIRN_ORPHAN_STEPS", "60"))
FLOOR = timedelta(hours=72).total_seconds()
OTHER = TableName(("db",), "other")
NAMES = ("x", "a b", "50%25", "ü", "day=1/x", "A%2FB", "deep/er/x", "c.d+e")


@dataclass
class World:
    """A lake, and what is known of every file that was ever written to it."""

    lake: Lake
    random: Random
    numbers: count[int] = field(default_factory=count)
    written: dict[Path, bytes] = field(default_factory=dict)
    quarantined_count: int = 0
    returned: int = 0

    def __post_init__(self) -> None:
        for name in (PLAIN, OTHER):
            self.lake.create(name, **{"write.metadata.previous-versions-max": "2"})
            append_files(self.lake, name)

    def note(self) -> None:
        """Remember new files."""
        for name in (PLAIN, OTHER):
            for path in everything(self.lake, name):
                self.written.setdefault(path, path.read_bytes())

    def append(self) -> None:
        append_files(self.lake, self.random.choice([PLAIN, OTHER]))

    def stage(self) -> None:
        before = self.lake.metadata(PLAIN)["current-snapshot-id"]
        append_files(self.lake)
        after = self.lake.metadata(PLAIN)["current-snapshot-id"]
        if self.random.random() < 0.5:
            self.lake.commit(altered(PLAIN, _ref(f"b{next(self.numbers)}", after)))
        self.lake.commit(altered(PLAIN, _ref("main", before)))

    def expire(self) -> None:
        """As an engine that forgets to delete the files."""
        metadata = self.lake.metadata(PLAIN)
        held = {ref["snapshot-id"] for ref in metadata["refs"].values()}
        ids = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] not in held]
        if ids:
            some = self.random.sample(ids, self.random.randint(1, len(ids)))
            self.lake.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": some}))

    def drop_branch(self) -> None:
        branches = [name for name in self.lake.metadata(PLAIN)["refs"] if name != "main"]
        if branches:
            name = self.random.choice(branches)
            self.lake.commit(altered(PLAIN, {"action": "remove-snapshot-ref", "ref-name": name}))

    def litter(self) -> None:
        ago = self.random.choice([0, 3_600, FLOOR - 600, FLOOR + 600, 2 * FLOOR, 20 * FLOOR, -FLOOR])
        name = f"data/{self.random.choice(NAMES)}-{next(self.numbers)}.parquet"
        stray(self.lake, name, self.random.choice([PLAIN, OTHER]), seconds=ago)

    def adopt(self) -> None:
        """A commit that names a file which has lain there unnoticed."""
        strays = [path for path in everything(self.lake) if path.read_bytes().startswith(b"rows of")]
        if strays:
            path = self.random.choice(strays)
            refer_to(self.lake, path, spelled=self.random.choice([str(path), f"file:{path}", path.as_uri()]))

    def grow_old(self) -> None:
        for name in (PLAIN, OTHER):
            age(everything(self.lake, name), self.random.choice([3_600, FLOOR, 10 * FLOOR]))

    def time_passes(self) -> None:
        with self.lake.services.database.writing() as uow:
            for batch in uow.orphans.of_table(relation_id(self.lake), list(BatchState)):
                uow.orphans.put(replace(batch, taken_at=batch.taken_at - timedelta(days=30)))

    def job(self) -> None:
        """An optimizer that proposes everything, on a server that may die at any step."""
        lease = begun(self.lake)
        young = self.young()
        server = dying_orphans(self.lake, Fuse(self.random.choice([10_000, self.random.randint(1, 60)])))
        with suppress(Killed):
            server.end_overdue(lease)
            everywhere = [*everything(self.lake), *everything(self.lake, OTHER)]
            self.quarantined_count += len(proposed(self.lake, lease, everywhere, server).quarantined)
        self.lake.services.jobs.cancel(lease.job_id)
        assert [path for path in young if not path.exists()] == []

    def put_back(self) -> None:
        quarantine = dying_orphans(self.lake, Fuse(self.random.choice([10_000, self.random.randint(1, 20)]))).quarantine
        with suppress(Killed):
            self.returned += len(quarantine.restore(relation_id(self.lake)))

    def young(self) -> list[Path]:
        """Files that may not be touched whoever refers to them."""
        now = time.time()
        paths = [*everything(self.lake), *everything(self.lake, OTHER)]
        return [path for path in paths if now - path.stat().st_mtime < FLOOR - 60]

    def check(self) -> None:
        for name in (PLAIN, OTHER):
            needed = reachable(self.lake, name)
            assert [path for path in needed if path.read_bytes() != self.written[path]] == []
        gone = [path for path in self.written if not path.exists()]
        held = aside(self.lake) | reports_of_deleted(self.lake)
        lost = [path for path in gone if self.written[path] not in held and str(path) not in held]
        assert lost == []
        changed = [path for path in self.written if path.exists() and path.read_bytes() != self.written[path]]
        assert changed == []


def _ref(name: str, snapshot_id: int) -> Json:
    return {"action": "set-snapshot-ref", "type": "branch", "ref-name": name, "snapshot-id": snapshot_id}


def reachable(lake: Lake, name: TableName) -> set[Path]:
    """Read again without any of Firn's own code: every file of every snapshot of the current metadata."""
    location = lake.services.tables.load(LAKE, name).metadata_location or ""
    reachable = {
        path_of(location),
        *(path_of(logged["metadata-file"]) for logged in lake.metadata(name)["metadata-log"]),
    }
    for snapshot in lake.metadata(name)["snapshots"]:
        manifests = [manifest["manifest_path"] for manifest in _avro(snapshot["manifest-list"])]
        files = [entry["data_file"]["file_path"] for each in manifests for entry in _avro(each)]
        reachable |= {_meant(location) for location in (snapshot["manifest-list"], *manifests, *files)}
    return reachable


def _meant(location: str) -> Path:
    """However it is spelled: as a path, or percent-encoded as some writers do."""
    path = Path(location.removeprefix("file://").removeprefix("file:"))
    return path if path.exists() else Path(unquote(str(path)))


def _avro(location: str) -> list[Json]:
    return list(fastavro.reader(io.BytesIO(path_of(location).read_bytes())))  # type: ignore[arg-type]


def reports_of_deleted(lake: Lake) -> set[bytes | str]:
    """Paths of what was deleted for good."""
    done = [batch for batch in batches(lake) if batch.state in (BatchState.DELETED, BatchState.DELETING)]
    lines = [line for batch in done for line in lake.services.orphans.quarantine.load_report(batch)]
    return {line.file.location.removeprefix("file://") for line in lines}


@pytest.mark.parametrize("seed", range(4))
def test_no_needed_and_no_young_file_is_ever_moved_and_none_is_lost(lake: Lake, seed: int) -> None:
    world = World(lake, Random(seed))
    acts: list[Callable[[], None]] = [world.append, world.stage, world.expire, world.drop_branch, world.litter]
    acts += [world.litter, world.litter, world.adopt, world.grow_old, world.time_passes, world.put_back]
    acts += [world.job] * 4
    for _ in range(STEPS):
        world.random.choice(acts)()
        world.note()
        world.check()
    assert world.quarantined_count > 0


def test_the_model_sees_a_needed_file_that_is_gone(lake: Lake) -> None:
    world = World(lake, Random(0))
    world.note()
    next(path for path in files_below(find_published_location(lake)) if path.suffix == ".parquet").unlink()
    with pytest.raises((AssertionError, FileNotFoundError)):
        world.check()
