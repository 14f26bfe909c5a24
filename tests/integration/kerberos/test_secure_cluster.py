"""A server on a cluster with Kerberos, with nothing but a principal and a keytab."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.errors import Unavailable
from firn.embedded.ports import LOOPBACK
from firn.hdfs import files
from firn.hdfs.errors import NO_DELEGATION
from server.kerberos.errors import KerberosError
from tests.integration.hdfs.mini_cluster import run_tool
from tests.integration.kerberos.clients import Clients
from tests.integration.kerberos.cluster import HIVE, SecureCluster
from tests.integration.kerberos.realm import NAME
from tests.integration.kerberos.servers import secure_server
from tests.integration.kerberos.tables import append, read, scan, upgrade, wait_for, write
from tests.server.kerberos.keytabs import write_keytab
from tests.server.metastore.hive_side import HiveSide
from tests.spark_fixtures import ServerProcess

pytestmark = [pytest.mark.hive, pytest.mark.spark]
SERVER = f"firn/{socket.getfqdn().lower()}"
FETCHER = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"
LIFETIME_SECONDS = 15
"""The lifetime of the tickets of the principal `brief`."""
RENEWING_SECONDS = 2.5 * LIFETIME_SECONDS


@pytest.fixture(scope="module", autouse=True)
def principals(cluster: SecureCluster) -> None:
    for principal in (SERVER, "firn"):
        cluster.realm.add(principal)
    cluster.realm.add("brief", lifetime=f"{LIFETIME_SECONDS} seconds")


@pytest.fixture(scope="module")
def server(cluster: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    keytab = cluster.realm.export("firn.keytab", SERVER)
    with secure_server(cluster, tmp_path_factory.mktemp("firn"), f"firn/_HOST@{NAME}", keytab) as running:
        yield running


def test_a_hive_table_is_upgraded_and_synced(
    cluster: SecureCluster, server: ServerProcess, hive: HiveSide, clients: Clients
) -> None:
    location = upgrade(cluster, server, hive, "orders")
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


def test_an_ended_token_is_explained(
    cluster: SecureCluster, clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled token is refused as one is whose time is over, which takes a day at least."""
    by_address, token = cluster.hdfs.uri.replace("localhost", LOOPBACK), str(tmp_path / "token")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", cluster.realm.java)
    run_tool(cluster.conf_dir, FETCHER, "-fs", cluster.hdfs.uri, "--renewer", "hdfs", token)
    with monkeypatch.context() as as_on_yarn:
        as_on_yarn.setenv("HADOOP_TOKEN_FILE_LOCATION", token)
        assert "/warehouse" in clients.ask_hdfs(by_address)
    run_tool(cluster.conf_dir, FETCHER, "-fs", cluster.hdfs.uri, "--cancel", token)
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", token)
    with pytest.raises(OSError, match=rf"InvalidToken: .*can't be found in cache; {re.escape(NO_DELEGATION)}$"):
        clients.ask_hdfs(by_address)


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
