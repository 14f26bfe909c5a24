"""Optimizers that a server starts on a YARN with Kerberos: with a keytab beyond their tokens, and as another user.

Each application costs a minute of CPU, and the tokens last eight minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

import firn
from firn.hdfs import access, files
from tests.integration.hdfs.launches import (
    CONF,
    change_launch,
    connect_catalog,
    end_optimizers,
    server_on_yarn,
    start_optimizers,
    token_of,
    upload_package,
    wait_for,
)
from tests.integration.hdfs.mini_yarn import MiniYarn
from tests.integration.hdfs.test_catalog import SCHEMA, rows
from tests.integration.kerberos.cluster import TOKEN_SECONDS, SecureHdfs
from tests.integration.kerberos.realm import NAME
from tests.integration.kerberos.secure_yarn import secure_yarn
from tests.spark_fixtures import ServerProcess

pytestmark = [
    *(pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(3600)),
    pytest.mark.skipif("SOAK_SECONDS" not in os.environ, reason="eight minutes until tokens end are for `make soak`"),
]

PRINCIPAL = f"firn/node@{NAME}"
SUPERUSER = "hdfs"
MERGE_SECONDS = 1800


@pytest.fixture(scope="module")
def yarn(hdfs: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniYarn]:
    with secure_yarn(hdfs, tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.fixture(scope="module")
def keytab(hdfs: SecureHdfs) -> Path:
    hdfs.realm.add(PRINCIPAL)
    return hdfs.realm.export("node.keytab", PRINCIPAL)


@pytest.fixture(scope="module")
def package(hdfs: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return upload_package(hdfs.hdfs, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def server(
    hdfs: SecureHdfs, yarn: MiniYarn, keytab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    own = {"FIRN_HADOOP__PRINCIPAL": PRINCIPAL, "FIRN_HADOOP__KEYTAB": str(keytab)}
    data = tmp_path_factory.mktemp("secure-yarn") / "data"
    with server_on_yarn(hdfs.hdfs, yarn, data, **hdfs.settings, **own) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(
    server: ServerProcess, package: dict[str, Any], keytab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalog]:
    """A client that writes as `firn`, as the server does; the superuser has uploaded the package before."""
    assert package
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{keytab}")
        patch.setenv("KRB5CCNAME", f"FILE:{tmp_path_factory.mktemp('tickets')}/krb5cc")
        yield connect_catalog(server)


def merge(server: ServerProcess, catalog: Catalog, name: str, number: int, mode: str) -> None:
    """Change a row, and wait until an optimizer has merged the change."""
    if not catalog.table_exists(f"keyed.{name}"):
        catalog.create_namespace_if_not_exists("keyed")
        properties = {"firn.primary-key": "id"}
        catalog.create_table(f"keyed.{name}", SCHEMA, properties=properties).append(rows((0, "a"), (1, "b")))
    server.set_property(f"keyed.{name}", "firn.merge.mode", mode)
    catalog.load_table(f"keyed.{name}").append(rows((0, f"change {number}")))
    job = server.post(f"catalogs/lake/tables/keyed.{name}/jobs", {"kind": "merge"})["id"]
    wait_for(
        lambda: bool(server.get(f"jobs/{job}")["status"] == "succeeded"),
        f"the merge in {mode}",
        server,
        seconds=MERGE_SECONDS,
    )
    with firn.connect(server.url, token=token_of(server)) as client:
        table = client.scan(f"keyed.{name}").to_arrow()
    assert dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))[0] == f"change {number}"


def list_owners(location: str) -> set[str]:
    """The owners of the data files below a directory."""
    below = [status.path for status in files.list_directory(location, recursive=True) if not status.is_directory]
    return {access.read_rights(f"{location}/{name}").owner for name in below}


def test_an_optimizer_with_a_keytab_outlives_its_tokens(
    hdfs: SecureHdfs,
    server: ServerProcess,
    catalog: Catalog,
    yarn: MiniYarn,
    package: dict[str, Any],
    keytab: Path,
) -> None:
    """Java and Python each write to HDFS after the tokens of the start have ended: by a merge of either."""
    conf = CONF | {"spark.security.credentials.renewalRatio": "0.25"}
    settings: dict[str, Any] = {"principal": PRINCIPAL, "keytab": str(keytab), "conf": conf, "java": hdfs.realm.java}
    start_optimizers(server, package, queue="default", **settings)
    merge(server, catalog, "weeks", 1, "adopt")
    began = time.monotonic()
    merge(server, catalog, "weeks", 2, "rewrite")
    time.sleep(max(0.0, began + TOKEN_SECONDS + 5 - time.monotonic()))
    merge(server, catalog, "weeks", 3, "adopt")
    merge(server, catalog, "weeks", 4, "rewrite")
    assert len(server.http.get("/api/v1/optimizers").json()) == 1, "another optimizer has taken its place"
    assert list_owners(catalog.load_table("keyed.weeks").location()) == {"firn"}
    end_optimizers(server, yarn, 1)
    assert [app["finalStatus"] for app in yarn.list_ended()] == ["SUCCEEDED"]


def test_an_optimizer_works_as_the_user_whom_the_launch_names(
    hdfs: SecureHdfs, server: ServerProcess, catalog: Catalog, yarn: MiniYarn, package: dict[str, Any]
) -> None:
    """Java and Python both have tokens of that user, for whom the server's principal may ask."""
    ended = len(yarn.list_ended())
    change_launch(server, principal=None, keytab=None)
    start_optimizers(server, package, queue="default", proxy_user=SUPERUSER, java=hdfs.realm.java)
    merge(server, catalog, "others", 1, "adopt")
    assert SUPERUSER in list_owners(catalog.load_table("keyed.others").location())
    end_optimizers(server, yarn, ended + 1)
    (application,) = yarn.list_ended()[ended:]
    assert (application["user"], application["finalStatus"]) == (SUPERUSER, "SUCCEEDED")
