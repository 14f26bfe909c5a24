"""A server on a cluster with Kerberos, with nothing but a principal and a keytab.

A soak run renews tickets of two minutes for twenty minutes.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdfs_native import Client
from pyiceberg.catalog import load_catalog
from thrift.transport.TSocket import TSocket

import firn
from catalog.errors import Unavailable
from firn.embedded.ports import LOOPBACK
from firn.hdfs import calls, files
from firn.hdfs.files import HdfsReader
from firn.hdfs.registration import register_file_io
from server.kerberos.errors import KerberosError
from server.kerberos.keytab import find_principal
from server.kerberos.tickets import KeytabTickets
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.security import Authentication, MetastoreSecurity
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.integration.kerberos.cluster import HIVE, SECURITY, SecureCluster
from tests.integration.kerberos.realm import NAME
from tests.server.kerberos.keytabs import write_keytab
from tests.server.metastore.hive_side import HiveSide
from tests.spark_fixtures import ServerProcess, interpret_queries, server_process, wait_for_images

pytestmark = [pytest.mark.hive, pytest.mark.spark]
SERVER = f"firn/{socket.getfqdn().lower()}"
IS_SOAK = "SOAK_SECONDS" in os.environ
LIFETIME_SECONDS = 120 if IS_SOAK else 15
"""The lifetime of the tickets of the principal `brief`."""
RENEWING_SECONDS = 10 * LIFETIME_SECONDS if IS_SOAK else 2.5 * LIFETIME_SECONDS
JOB_SECONDS = 540


@pytest.fixture(scope="module", autouse=True)
def principals(cluster: SecureCluster) -> None:
    for principal in (SERVER, "firn"):
        cluster.realm.add(principal)
    cluster.realm.add("brief", lifetime=f"{LIFETIME_SECONDS} seconds")


@pytest.fixture(scope="module")
def server(cluster: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("firn")
    settings = {
        **cluster.settings,
        **interpret_queries(directory),
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {cluster.realm.java}",
        "FIRN_HADOOP__PRINCIPAL": f"firn/_HOST@{NAME}",
        "FIRN_HADOOP__KEYTAB": str(cluster.realm.export("firn.keytab", SERVER)),
        "FIRN_OPTIMIZERS__LOCAL": "1",
        "FIRN_OPTIMIZERS__SCALING_SECONDS": "1",
        "FIRN_BACKGROUND__OPERATION_SECONDS": "1",
        "FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "1",
    }
    for name in ("KRB5CCNAME", "KRB5_CLIENT_KTNAME"):
        settings[name] = "FILE:/nowhere"  # the settings win
    with server_process(directory / "data", **settings) as running:
        wait_for_images(running.http)
        yield running


@pytest.fixture(scope="module")
def hive(cluster: SecureCluster) -> Iterator[HiveSide]:
    """Another program at the metastore, as HDFS's superuser."""
    transport = SECURITY.transport(TSocket(LOOPBACK, cluster.metastore.port), LOOPBACK)
    side = HiveSide(cluster.metastore.uri, f"{cluster.hdfs.uri}/hive", transport)
    side.add_database("db")
    yield side
    side.close()


class Clients:
    """A server's clients of the cluster, in this process and with a principal of their own."""

    def __init__(self, cluster: SecureCluster, directory: Path) -> None:
        self._cluster, self._directory = cluster, directory
        self._before = {name: os.environ[name] for name in ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")}

    def close(self) -> None:
        os.environ.update(self._before)

    def act_as(self, principal: str, keytab: Path) -> KeytabTickets:
        """Do what the server does when it starts."""
        tickets = KeytabTickets(find_principal(keytab, principal), keytab, self._directory / "krb5cc")
        tickets.prepare()
        return tickets

    def ask_metastore(self, tickets: KeytabTickets, principal: str = f"hive/_HOST@{NAME}") -> list[str]:
        """Ask over a new connection."""
        security = MetastoreSecurity(authentication=Authentication.KERBEROS, principal=principal, tickets=tickets)
        metastore = HiveMetastore(MetastoreSettings(uris=(self._cluster.metastore.uri,), security=security))
        try:
            return metastore.databases()
        finally:
            metastore.close()

    def ask_hdfs(self) -> list[str]:
        """Ask over a new connection."""
        client: Client = calls.make_client(self._cluster.hdfs.uri, self._cluster.conf_dir)
        return [status.path for status in calls.iterate(lambda: client.list_status("/"))]


@pytest.fixture
def clients(cluster: SecureCluster, tmp_path: Path) -> Iterator[Clients]:
    made = Clients(cluster, tmp_path)
    yield made
    made.close()


def write(location: str, *rows: tuple[int, str]) -> None:
    """Write a Parquet file as Hive would, an hour ago, so that no sync waits for it to settle."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [row[0] for row in rows], "v": [row[1] for row in rows]}), sink)
    files.write_new(location, sink.getvalue())
    client, path = calls.connect(location)
    long_ago = int(time.time() - 3600) * 1000
    client.set_times(path, long_ago, long_ago)


def read(directory: str) -> list[tuple[int, str]]:
    """The rows of all Parquet files in a directory."""
    names = [status.path for status in files.list_directory(directory) if status.path.endswith(".parquet")]
    tables = [pq.ParquetFile(HdfsReader(f"{directory}/{name}")).read(columns=["id", "v"]) for name in names]
    return sorted((row["id"], row["v"]) for table in tables for row in table.to_pylist())


def append(server: ServerProcess, table: str, row: dict[str, Any]) -> None:
    """Append a row with PyIceberg, as the current principal."""
    register_file_io()
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("p", pa.string())])
    catalog.load_table(table).append(pa.Table.from_pylist([row], schema=schema))


def scan(server: ServerProcess, table: str) -> list[tuple[int, str]]:
    """The rows as a reader without Spark gets them, read as the current principal."""
    with firn.connect(server.url) as client:
        return sorted((row["id"], row["v"]) for row in client.scan(table).to_arrow().to_pylist())


def wait_for(look: Callable[[], Any], done: Callable[[Any], bool], seconds: float = JOB_SECONDS) -> Any:
    until = time.monotonic() + seconds
    while not done(seen := look()):
        assert time.monotonic() < until, seen
        time.sleep(0.5)
    return seen


def test_a_hive_table_is_upgraded_and_synced(
    cluster: SecureCluster, server: ServerProcess, hive: HiveSide, clients: Clients
) -> None:
    location = f"{cluster.hdfs.uri}/hive/orders"
    write(f"{location}/p=x/1.parquet", (1, "a"), (2, "b"))
    storage = a_storage(location, "id bigint; v string")
    hive.add_table(a_hive_table(name="orders", storage=storage, partitioned_by="p string"))
    partition = a_hive_partition("x", storage=a_storage(f"{location}/p=x", "id bigint; v string"))
    hive.add_partition("db", "orders", partition)
    operation = server.post("catalogs/lake/hive/db.orders/upgrade", {"primary_key": ["id"], "properties": {}})
    ended = wait_for(lambda: server.get(f"operations/{operation['id']}"), lambda seen: seen["status"] != "running", 60)
    assert ended["status"] == "succeeded", ended
    assert scan(server, "db.orders") == [(1, "a"), (2, "b")]
    write(f"{location}/p=x/2.parquet", (3, "theirs"))
    assert server.post("catalogs/lake/hive/db.orders/sync")["message"] == "partitions new files: 1"
    clients.act_as("firn", cluster.realm.export("writer.keytab", "firn"))
    append(server, "db.orders", {"id": 1, "v": "mine", "p": "x"})
    assert scan(server, "db.orders")[:2] == [(1, "mine"), (2, "b")]


def test_tickets_lie_in_the_data_directory_for_the_server_alone(server: ServerProcess) -> None:
    cache = server.data_dir / "krb5cc"
    assert cache.stat().st_mode & 0o777 == 0o600
    task = next(task for task in server.get("health")["tasks"] if task["name"] == "renew_ticket")
    assert task["error"] is None


@pytest.mark.model
def test_tickets_of_short_life_are_renewed_also_after_the_kdc_was_away(
    cluster: SecureCluster, clients: Clients
) -> None:
    tickets = clients.act_as("brief", cluster.realm.export("brief.keytab", "brief"))
    until = time.monotonic() + RENEWING_SECONDS
    while time.monotonic() < until:
        assert "default" in clients.ask_metastore(tickets)
        assert "/warehouse" in clients.ask_hdfs()
        time.sleep(LIFETIME_SECONDS / 4)
    assert tickets.activate().error is None
    tickets.cache.unlink()
    clients.ask_metastore(tickets)
    cluster.realm.stop()
    try:
        assert "default" in clients.ask_metastore(tickets), "the metastore's ticket is still valid"
        time.sleep(LIFETIME_SECONDS + 1)
        with pytest.raises(Unavailable, match=r"has expired: Cannot contact any KDC for realm '\S+'; no KDC answers"):
            clients.ask_metastore(tickets)
        with pytest.raises(OSError, match=r"no Kerberos ticket for HDFS: .*(expired|Cannot contact any KDC)"):
            clients.ask_hdfs()
        assert tickets.status().expires_at is None
        assert "no KDC answers" in str(tickets.status().error)
    finally:
        cluster.realm.start()
    assert "default" in clients.ask_metastore(tickets)
    assert "/warehouse" in clients.ask_hdfs()
    assert tickets.status().error is None


def test_a_keytab_with_old_keys_is_explained(cluster: SecureCluster, clients: Clients) -> None:
    old = cluster.realm.export("old.keytab", "firn")
    cluster.realm.export("new.keytab", "firn")
    tickets = clients.act_as("firn", old)
    with pytest.raises(KerberosError, match=r"Decrypt integrity check failed; the keys differ: export the keytab"):
        tickets.renew()
    with pytest.raises(Unavailable, match="export the keytab"):
        clients.ask_metastore(tickets)
    cluster.realm.administer("modprinc +requires_preauth firn")
    assert "the realm has a newer key: export the keytab again" in str(tickets.explain_refusal())
    with pytest.raises(OSError, match="no Kerberos ticket for HDFS: Preauthentication failed"):
        clients.ask_hdfs()
    cluster.realm.administer("delprinc -force firn")
    assert "not found in Kerberos database; the realm does not know the principal" in str(tickets.explain_refusal())
    cluster.realm.add("firn")


def test_an_unknown_realm_is_explained(cluster: SecureCluster, clients: Clients) -> None:
    keytab = write_keytab(cluster.realm.directory / "other.keytab", "firn@OTHER.TEST")
    tickets = clients.act_as("firn", keytab)
    with pytest.raises(KerberosError, match=r'Cannot find KDC for realm "OTHER\.TEST"; krb5\.conf does not know'):
        tickets.renew()


def test_a_metastore_with_another_principal_or_key_is_explained(cluster: SecureCluster, clients: Clients) -> None:
    tickets = clients.act_as("firn", cluster.realm.export("now.keytab", "firn"))
    with pytest.raises(Unavailable, match=r"Server hive/other@\S+ not found .* correct hive\.kerberos_principal"):
        clients.ask_metastore(tickets, f"hive/other@{NAME}")
    assert "default" in clients.ask_metastore(tickets, "hive/_HOST")
    cluster.realm.export("elsewhere.keytab", HIVE)
    tickets.cache.unlink()
    with pytest.raises(Unavailable, match=r"does not accept the ticket .* newest key"):
        clients.ask_metastore(tickets)
    cluster.realm.export("hive.keytab", HIVE)
    tickets.cache.unlink()
    assert "default" in clients.ask_metastore(tickets)


@pytest.mark.timeout(900)
def test_an_optimizer_that_the_server_starts_publishes(
    cluster: SecureCluster, server: ServerProcess, hive: HiveSide
) -> None:
    """The table of the test above. The optimizer's Java reads the server's tickets."""
    path = "catalogs/lake/hive/db.orders"
    server.post(f"{path}/publish?merge=true")
    request = wait_for(lambda: server.get(path)["publish_request"], lambda seen: seen["step"] in ("done", "failed"))
    assert request["step"] == "done", request
    published = hive.partitions("db", "orders", ["p=x"])[0].storage.location
    assert published.startswith(f"{cluster.hdfs.uri}/warehouse/")
    assert read(published) == [(1, "mine"), (2, "b"), (3, "theirs")]
    assert files.get_status(f"{cluster.hdfs.uri}/hive/orders/p=x/1.parquet").size > 0
