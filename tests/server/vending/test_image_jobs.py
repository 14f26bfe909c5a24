"""A job that builds an image: an optimizer without keys of its own, in a catalog that vends credentials."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pyiceberg.io import FileIO

from catalog.access.privileges import Privilege
from catalog.errors import Invalid, LeaseLost
from catalog.jobs import leases
from catalog.jobs.job import JobKind
from catalog.names import TableName
from firn.protocol.leases import Lease
from firn.protocol.tasks.image import ImageCredentials, Layer, LayerTask
from optimizer.client import ServerApi
from optimizer.client import connect as connect_optimizer
from optimizer.errors import Refused
from optimizer.images.pair import Check, build_from_task
from optimizer.job_run import Attempt
from optimizer.jobs import image
from optimizer.lease_keeper import LeaseKeeper
from tests.s3_gateway import Gateway, enforcing_s3
from tests.server.vending.test_images import MERGED, STOCK, connect, listed, read, url  # noqa: F401 - url: a fixture
from tests.server.vending.vault import OTHER, VAULT, Vault


@pytest.fixture
def gateway(vault: Vault, url: str, s3: str) -> Iterator[Gateway]:  # noqa: F811
    """S3 as clients see it: sessions may do what their policies say."""
    with enforcing_s3(s3) as gateway:
        vault.configure({"firn.storage.s3.endpoint": gateway.url})
        yield gateway


@pytest.fixture
def api(vault: Vault, url: str) -> ServerApi:  # noqa: F811
    return connect_optimizer(url, token=vault.admin.text)


def lease_job(vault: Vault, api: ServerApi, kind: JobKind = JobKind.IMAGE, table: TableName = STOCK) -> Lease:
    vault.services.planner.run_now(VAULT, table, kind, {})
    optimizer = api.register(group="default", host="host", pid=1, version="0", launch=None, facts={}, slots=1)
    lease = api.take_lease(optimizer.id, [kind], wait_seconds=0)
    assert lease is not None
    return lease


def run(api: ServerApi, lease: Lease) -> dict[str, Any]:
    with LeaseKeeper(api, lease, stopping=threading.Event()) as keeper:
        return image.run(Attempt(api, lease, keeper)).result


def test_credentials_of_an_image_job_read_both_stores_and_write_images_alone(
    vault: Vault,
    url: str,  # noqa: F811
    gateway: Gateway,
    api: ServerApi,
) -> None:
    assert run(api, lease_job(vault, api)) == {"keys": 2, "hidden_rows": 1}
    table = vault.location(STOCK).partition("://")[2]
    assert gateway.denied == []
    assert {key.rpartition("/")[0] for key in gateway.written()} == {f"{table}/merged"}
    read_keys = {key for action, key in gateway.allowed if action == "s3:GetObject"}
    read_directories = {key.removeprefix(table).split("/")[1] for key in read_keys}
    assert read_directories == {"base", "change", "merged"}  # PyIceberg looks whether a file that it writes is there
    assert read(connect(url, vault.token("ada", Privilege.READ, table="stock"))) == MERGED


def test_its_credentials_write_nowhere_else(vault: Vault, gateway: Gateway, api: ServerApi) -> None:
    begun = api.begin_image(lease_job(vault, api))
    assert "s3.session-token" in begun.credentials
    statements = gateway.policies[begun.credentials["s3.access-key-id"]]
    table = vault.location(STOCK).partition("://")[2]
    writing = [statement for statement in statements if "s3:PutObject" in listed(statement["Action"])]
    assert [statement["Resource"] for statement in writing] == [[f"arn:aws:s3:::{table}/merged/*"]]
    other = vault.location(OTHER).partition("://")[2]
    key = begun.credentials["s3.access-key-id"]
    for place in (f"{table}/base/data/a", f"{table}/change/data/a", f"{table}/metadata/a", f"{other}/data/a"):
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert not gateway.is_allowed(key, action, place, None), (action, place)
    assert not gateway.is_allowed(key, "s3:GetObject", f"{other}/data/a", None)


def test_a_job_of_another_kind_gets_none_of_them(vault: Vault, gateway: Gateway, api: ServerApi) -> None:
    lease = leases.Lease.parse(lease_job(vault, api, JobKind.EXPIRE, TableName(("db", "stock"), "base")).lease)
    with pytest.raises(Invalid, match="builds no image"):
        vault.services.vending.grant_image_builder(None, lease)


def test_credentials_of_an_image_job_end_with_the_lease(vault: Vault, gateway: Gateway, api: ServerApi) -> None:
    lease = leases.Lease.parse(lease_job(vault, api).lease)
    vault.services.jobs.cancel(lease.job_id)
    with pytest.raises(LeaseLost):
        vault.services.vending.grant_image_builder(None, lease)


def test_files_outside_of_the_table_need_the_optimizers_own_credentials(
    vault: Vault, gateway: Gateway, api: ServerApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for other jobs. The server has allowed the files, but the credentials of one table do not reach them."""
    used: list[dict[str, str]] = []

    def build(task: LayerTask, check: Check, _files: FileIO | None = None) -> Layer:
        used.append(task.file_io)
        check(["s3://elsewhere/a.parquet"])
        return Layer(packs=[], hidden=[], replaced_vectors=[], keys=0, hidden_rows=0)

    monkeypatch.setattr(image, "build_from_task", build)
    lease = lease_job(vault, api)
    with LeaseKeeper(api, lease, stopping=threading.Event()) as keeper:
        attempt = Attempt(api, lease, keeper)
        attempt.file_access.allowed.add("s3://elsewhere/")
        image.run(attempt)
    assert [bool(file_io) for file_io in used] == [True, False]


LIFE = timedelta(seconds=3)


@pytest.fixture
def short_lived(vault: Vault, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of a few seconds, which end before the job opens the first data file."""
    vault.cloud.lives = lambda: datetime.now(UTC) + LIFE
    gateway.session_seconds = LIFE.total_seconds()

    def build_slowly(task: LayerTask, check: Check, files: FileIO | None = None) -> Layer:
        remaining = [LIFE.total_seconds()]

        def check_slowly(locations: Sequence[str]) -> None:
            check(locations)
            time.sleep(remaining.pop() if remaining else 0)

        return build_from_task(task, check_slowly, files)

    monkeypatch.setattr(image, "build_from_task", build_slowly)


@pytest.mark.usefixtures("short_lived")
def test_a_long_build_renews_its_credentials(
    vault: Vault,
    url: str,  # noqa: F811
    gateway: Gateway,
    api: ServerApi,
) -> None:
    """The job failed when its first credentials ended."""
    assert run(api, lease_job(vault, api)) == {"keys": 2, "hidden_rows": 1}
    assert gateway.denied == []
    assert len(gateway.policies) > 1
    vault.cloud.lives, gateway.session_seconds = None, None
    assert read(connect(url, vault.token("ada", Privilege.READ, table="stock"))) == MERGED


@pytest.mark.usefixtures("short_lived")
def test_a_job_whose_credentials_end_says_so(
    vault: Vault, gateway: Gateway, api: ServerApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next reader plans another job; while the server is away, the job is left to its lease and tried again."""

    def away(*_: object) -> None:
        raise httpx.ConnectError("the server is away")

    lease = lease_job(vault, api)
    monkeypatch.setattr(ServerApi, "renew_image_credentials", away)
    with pytest.raises(httpx.ConnectError):
        run(api, lease)
    monkeypatch.setattr(ServerApi, "renew_image_credentials", lambda *_: ImageCredentials())
    with pytest.raises(Refused, match=r"the credentials of this job end at .*, and the catalog gives no others"):
        run(api, lease)
