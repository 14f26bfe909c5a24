"""kill -9 of the server in the middle of an upgrade: the one started after it finishes the upgrade by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.embedded.metastore import EmbeddedMetastore
from tests.fingerprints import fingerprint
from tests.forked_programs import ForkedProgram
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.server.metastore.hive_side import HiveSide
from tests.spark_fixtures import address

pytestmark = pytest.mark.hive
MOMENTS = [
    "before UpgradeAttempt.begin 1",
    "after UpgradeAttempt.step 1",
    "before TableFiles.write_snapshot 1",
    "after TableFiles.write_snapshot 1",
    "after MetadataFiles.write 1",
    "after MetadataFiles.write 2",  # both stores' metadata are there, and nobody's
    "after Tables.add 1",  # upgraded, and nobody knows
]


@dataclass
class Mortal:
    """A server that is started anew on the same data whenever it has died."""

    directory: Path
    metastore: str
    process: ForkedProgram | None = None
    url: str = ""
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    @property
    def death_file(self) -> Path:
        return self.directory / "die-at"

    def start(self) -> None:
        quick = {"FIRN_BACKGROUND__OPERATION_SECONDS": "1", "FIRN_BACKGROUND__LEADER_SECONDS": "1"}
        environment = {**os.environ, **quick, "FIRN_METASTORE": self.metastore, "DYING_FILE": str(self.death_file)}
        arguments = ["server", "--port", "0", "--data-dir", str(self.directory / "data")]
        log = self.directory / "log"
        self.process = ForkedProgram("tests.integration.hive.dying", *arguments, environment=environment, log=log)
        self.url = address(self.process)

    def die_and_start_again(self) -> None:
        assert self.process is not None
        assert self.process.wait(60) == -9
        self.stop()
        self.start()

    def stop(self) -> None:
        assert self.process is not None
        with self.process:
            self.process.terminate()
            self.process.wait(60)

    def get(self, path: str) -> httpx.Response:
        return self.http.get(f"{self.url}/api/v1/{path}")

    def upgrade(self, table: str) -> str:
        """The operation's id, whatever becomes of the answer."""
        try:
            self.http.post(f"{self.url}/api/v1/catalogs/lake/hive/{table}/upgrade", json={"primary_key": ["id"]})
        except httpx.TransportError:
            self.die_and_start_again()
        else:
            self.die_and_start_again()
        (operation,) = [
            operation for operation in self.get("operations").json()["items"] if operation["target"] == table
        ]
        return str(operation["id"])

    def ended(self, operation_id: str) -> str:
        give_up = time.monotonic() + 60
        while True:
            operation = self.get(f"operations/{operation_id}").json()
            if operation["status"] != "running":
                return str(operation["status"])
            assert time.monotonic() < give_up, f"still running: {operation}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def mortal(metastore: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    server = Mortal(tmp_path_factory.mktemp("mortal"), metastore.uri)
    server.start()
    yield server
    server.stop()
    server.http.close()


@pytest.fixture(scope="module")
def hive_side(metastore: EmbeddedMetastore) -> Iterator[HiveSide]:
    side = HiveSide(metastore.uri, metastore.warehouse)
    side.add_database("killed")
    yield side
    side.close()


def hive_table(side: HiveSide, directory: Path, name: str) -> None:
    """Three rows in two partitions, written long ago."""
    storage = a_storage(f"file:{directory}", "id bigint; v string")
    side.add_table(a_hive_table("killed", name, storage=storage, partitioned_by="p string"))
    for part, ids in (("x", [1, 2]), ("a b", [3])):
        place = directory / f"p={part}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": ["v"] * len(ids)}), place / "000000_0")
        os.utime(place / "000000_0", (1_700_000_000, 1_700_000_000))
        partition = a_hive_partition(part, storage=a_storage(f"file:{place}", "id bigint; v string"))
        side.add_partition("killed", name, partition)


def test_an_upgrade_survives_the_death_of_the_server_at_each_step(
    mortal: Mortal, hive_side: HiveSide, tmp_path: Path
) -> None:
    for number, moment in enumerate(MOMENTS):
        name, directory = f"t{number}", tmp_path / f"t{number}"
        hive_table(hive_side, directory, name)
        before = fingerprint(directory)
        mortal.death_file.write_text(moment, encoding="utf-8")
        operation_id = mortal.upgrade(f"killed.{name}")
        assert mortal.ended(operation_id) == "succeeded", moment
        shown = mortal.get(f"catalogs/lake/tables/killed.{name}").json()
        assert (shown["kind"], shown["records"]) == ("keyed", 3), moment
        roots = list((mortal.directory / "data" / "warehouse" / "killed").glob(f"{name}-*"))
        assert len(roots) == 1, f"{moment}: directories of other attempts are left"
        assert fingerprint(directory) == before
