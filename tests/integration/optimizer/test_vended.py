"""Jobs on a catalog that gives out credentials: an optimizer without keys of its own works with those of its lease."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from firn.spark.jars import AWS_BUNDLE, fetch
from optimizer.worker import Worker
from tests.keyed_tables import a_worker
from tests.s3_fixtures import client_of_s3, s3_server
from tests.spark_fixtures import ServerProcess, server_process, shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROLE = "arn:aws:iam::123456789012:role/lake"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
AT_ONCE = {"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"}


@dataclass(frozen=True)
class Vault:
    """A server with a catalog in S3, and an optimizer whose Java has no credentials."""

    server: ServerProcess
    worker: Worker
    catalog: RestCatalog
    s3: Any

    def table(self, name: str) -> Table:
        table: Table = self.catalog.create_table(f"db.{name}", ROWS.schema, properties=AT_ONCE)
        for _ in range(3):
            table.append(ROWS)
        return table

    def ask(self, name: str, kind: str, **params: Any) -> str:
        return str(self.server.post(f"catalogs/vault/tables/db.{name}/jobs", {"kind": kind, "options": params})["id"])

    def run(self, name: str, kind: str, **params: Any) -> dict[str, Any]:
        job = self.ask(name, kind, **params)
        assert self.worker.work_once(self.worker.api.register(**self.worker.about).id, wait_seconds=5)
        return self.server.get(f"jobs/{job}")

    def keys(self, name: str) -> set[str]:
        """The data files that lie in the bucket."""
        listed = self.s3.list_objects_v2(Bucket="tables").get("Contents", ())
        return {
            stored_object["Key"]
            for stored_object in listed
            if f"/{name}-" in stored_object["Key"] and stored_object["Key"].endswith(".parquet")
        }


def java_without_credentials() -> None:
    """Teach the shared Java Amazon's classes, and keep it from looking for credentials where the test runs."""
    jvm: Any = shared_spark()._jvm
    jvm.java.lang.System.setProperty("aws.disableEc2Metadata", "true")
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(jvm.java.io.File(str(fetch(AWS_BUNDLE))).toURI().toURL())


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    java_without_credentials()
    directory = tmp_path_factory.mktemp("vault")
    with s3_server(directory / "s3.log") as endpoint:
        s3 = client_of_s3(endpoint)
        s3.create_bucket(Bucket="tables")
        servers = {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
        servers |= {"s3.access-key-id": "the-servers", "s3.secret-access-key": "own"}
        storage = {"endpoint": endpoint, "region": "us-east-1", "path-style": "true", "role-arn": ROLE}
        properties = {f"firn.storage.s3.{key}": value for key, value in storage.items()}
        with server_process(directory / "data", FIRN_FILE_IO=json.dumps(servers)) as server:
            vault_catalog = {"name": "vault", "warehouse": "s3://tables/wh"}
            server.post("catalogs", {**vault_catalog, "properties": {"firn.storage.vending": "sts", **properties}})
            catalog = RestCatalog("vault", uri=f"{server.url}/iceberg", warehouse="vault")
            catalog.create_namespace("db")
            yield Vault(server, a_worker(server.url), catalog, s3)


def configure(vault: Vault, *removed: str, **properties: str) -> None:
    changed = {"set": {f"firn.storage.{key}": value for key, value in properties.items()}, "remove": [*removed]}
    assert vault.server.http.patch("/api/v1/catalogs/vault/properties", json=changed).is_success


def test_an_optimizer_without_keys_rewrites_and_deletes_with_those_of_its_lease(vault: Vault) -> None:
    table = vault.table("t")
    rewritten = vault.run("t", "rewrite", everything=True)
    assert (rewritten["status"], rewritten["result"].get("rewritten_files")) == ("succeeded", 3), rewritten
    expired = vault.run("t", "expire")
    assert (expired["status"], expired["result"].get("deleted_files", 0) > 0) == ("succeeded", True), expired
    assert len(vault.keys("t")) == 1  # the files that were rewritten are deleted, by the same credentials
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_merge_by_adoption_reads_and_writes_with_the_credentials_of_its_lease(vault: Vault) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    table = vault.catalog.create_table("db.k", schema, properties={"firn.primary-key": "id"})
    for rows in ([(1, "a"), (2, "b")], [(2, "two"), (3, "c")]):
        table.append(pa.Table.from_pylist([{"id": key, "v": value} for key, value in rows], schema=schema))
        merged = vault.run("k", "merge", mode="adopt")
        assert (merged["status"], merged["result"].get("mode")) == ("succeeded", "adopt"), merged
        table = vault.catalog.load_table("db.k")
    base = vault.catalog.load_table(("db", "k", "base")).scan().to_arrow().sort_by("id")
    assert base.to_pydict() == {"id": [1, 2, 3], "v": ["a", "two", "c"]}


def test_where_the_catalog_gives_none_the_job_says_so(vault: Vault) -> None:
    vault.table("u")
    configure(vault, vending="none")
    try:
        job = vault.run("u", "rewrite", everything=True)
    finally:
        configure(vault, vending="sts")
    assert job["status"] == "failed"
    assert "this optimizer has no credentials for the storage" in job["error"]


def test_a_long_job_gets_new_credentials_by_its_lease(vault: Vault) -> None:
    """Iceberg's own provider asks for them with the headers of the catalog, of which the lease is one."""
    vault.table("w")
    vault.ask("w", "rewrite", everything=True)
    lease = vault.worker.api.take_lease(vault.worker.api.register(**vault.worker.about).id, ["rewrite"])
    assert lease is not None
    assert lease.delegation == ["vended-credentials"]
    path = "v1/vault/namespaces/db/tables"
    jvm: Any = shared_spark()._jvm

    def provided(name: str) -> str:
        known = jvm.java.util.HashMap()
        known.put("uri", f"{vault.server.url}/iceberg")
        known.put("credentials.uri", f"{vault.server.url}/iceberg/{path}/{name}/credentials")
        known.put("header.X-Firn-Lease", lease.lease)
        provider = jvm.org.apache.iceberg.aws.s3.VendedCredentialsProvider.create(known)
        try:
            return str(provider.resolveCredentials().accessKeyId())
        finally:
            provider.close()

    assert provided("w").startswith("ASIA")
    with pytest.raises(Exception, match="works on another table"):
        provided("u")
    vault.server.post(f"jobs/{lease.job_id}/cancel")
    with pytest.raises(Exception, match="has ended"):
        provided("w")


def test_signed_requests_do_as_well(vault: Vault) -> None:
    """For stores without STS: the server signs each request of the job."""
    vault.table("x")
    configure(vault, **{"vending": "none", "remote-signing": "true"})
    try:
        job = vault.run("x", "rewrite", everything=True)
    finally:
        configure(vault, "firn.storage.remote-signing", vending="sts")
    assert (job["status"], job["result"].get("rewritten_files")) == ("succeeded", 3), job


def test_files_elsewhere_are_opened_with_the_optimizers_own_credentials(vault: Vault) -> None:
    """Those of the table do not open them; this optimizer has none of its own."""
    table = vault.table("y")
    landed = min(vault.keys("y"))
    vault.s3.copy_object(Bucket="tables", Key="landing/day/one.parquet", CopySource={"Bucket": "tables", "Key": landed})
    configure(vault, **{"allowed-locations": "s3://tables/landing"})
    table.refresh().add_files(["s3://tables/landing/day/one.parquet"], check_duplicate_files=False)
    job = vault.run("y", "rewrite", everything=True)
    log = vault.server.http.get(f"/api/v1/jobs/{job['id']}/logs").json()
    assert any("opens them with its own credentials" in line["line"] for line in log), (job["error"], log)
    assert "this optimizer has no credentials for the storage" in job["error"]
