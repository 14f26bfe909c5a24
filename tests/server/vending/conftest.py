"""An S3 and STS of our own, and a server with access control whose catalog lies there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import botocore.session
import pytest

from catalog.ports.store import Database
from server.app import create_app
from server.background.registry import build_background
from server.container import build_services
from server.files.aws import Aws
from server.settings import AccessSettings, Settings, StorageSettings
from tests.s3_fixtures import client_of_s3, s3_server
from tests.server.vending.vault import OTHER, SERVERS_KEYS, STATIC_KEYS, TABLE, VAULT, Recorded, Vault


@pytest.fixture(scope="session", autouse=True)
def _descriptions_of_aws_are_read_once() -> Iterator[None]:
    """All servers of a process share the descriptions of AWS's services, which take 0.1 CPU seconds to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 in a process of its own."""
    with s3_server(tmp_path_factory.mktemp("moto") / "log") as url:
        yield url


@pytest.fixture
def bucket(s3: str, request: pytest.FixtureRequest) -> str:
    """A new bucket."""
    name = f"b{abs(hash((request.node.nodeid, time.time_ns()))):x}"
    client_of_s3(s3).create_bucket(Bucket=name)
    return name


@pytest.fixture
def vault(database: Database, tmp_path: Path, s3: str, bucket: str) -> Vault:
    settings = Settings(
        data_dir=tmp_path / "data",
        access=AccessSettings(enabled=True),
        storage=StorageSettings.model_validate(STATIC_KEYS),
        file_io={"s3.endpoint": s3, "s3.region": "us-east-1", **SERVERS_KEYS},
    )
    services = build_services(settings, database)
    cloud = Recorded(Aws(settings.file_io))
    services = replace(services, vending=replace(services.vending, cloud=cloud))
    storage = {"firn.storage.s3.endpoint": s3, "firn.storage.s3.region": "us-east-1"}
    services.namespaces.create_catalog(VAULT, f"s3://{bucket}/wh", None, storage)
    services.namespaces.create(VAULT, ("db",), {})
    admin = services.access.principals.create_first_admin()
    assert admin is not None
    app = create_app(settings, services, build_background(settings, services))
    vault = Vault(app=app, services=services, cloud=cloud, s3=s3, bucket=bucket, admin=admin)
    vault.create(TABLE)
    vault.create(OTHER)
    return vault
