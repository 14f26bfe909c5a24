"""What only a real name node refuses, and what the server and its check say then."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.ports.hadoop import Finding, Hop, Severity
from firn.hdfs import calls, files
from server.files import hdfs_check
from server.files.deadlines import Deadlines
from server.files.hdfs_check import HdfsFileSystems
from server.files.read_limits import NotRegular
from server.files.storage import Storage
from tests.integration.hdfs.daemons import Daemons
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.stores import Store


def examine(location: str) -> list[Finding]:
    return [*HdfsFileSystems(Deadlines(30)).examine(location)]


def test_a_colon_is_refused_by_its_name(hdfs: Store) -> None:
    with pytest.raises(Invalid, match=r"Invalid path name .*/a:b$") as refused:
        hdfs.storage.write_new(f"{hdfs.top}/a:b", b"1")
    assert "without a colon" in str(refused.value.hint)
    assert not hdfs.storage.exists(f"{hdfs.top}/a:b")


def test_a_directory_is_no_file(hdfs: Store) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/d/f", b"1")
    with pytest.raises(NotRegular):
        hdfs.storage.read(f"{hdfs.top}/d")
    with pytest.raises(Unavailable, match="is not a directory"):
        hdfs.storage.write_new(f"{hdfs.top}/d/f/x", b"1")


def test_a_full_quota_names_its_directory(hdfs: Store, cluster: MiniCluster) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    path = hdfs.top.removeprefix(cluster.uri)
    cluster.administer("-setQuota", "2", path)
    with pytest.raises(Unavailable, match=rf"quota .*of directory {path} is exceeded: quota=2 file count=3") as refused:
        hdfs.storage.write_new(f"{hdfs.top}/g", b"1")
    assert "hdfs dfsadmin -setQuota" in str(refused.value.hint)
    assert hdfs.names() == ["f"]


def test_a_quota_of_bytes_needs_room_for_a_whole_block_and_its_replicas(hdfs: Store, cluster: MiniCluster) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    path = hdfs.top.removeprefix(cluster.uri)
    cluster.administer("-setSpaceQuota", "1m", path)
    words = rf"The DiskSpace quota of {path} is exceeded: quota = 1048576 B = 1 MB"
    with pytest.raises(Unavailable, match=rf"cannot write .*/g: {words}") as refused:
        hdfs.storage.write_new(f"{hdfs.top}/g", b"1")
    assert "-setSpaceQuota" in str(refused.value.hint)
    assert [status.path for status in files.list_directory(hdfs.top)] == ["f"]
    finding = examine(hdfs.top)[-1]
    assert (finding.hop, finding.severity) == (Hop.QUOTA, Severity.FAILED)
    assert finding.message.startswith(f"The DiskSpace quota of {path} is exceeded")


def test_the_check_names_erasure_coding(hdfs: Store, cluster: MiniCluster) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    assert Hop.ERASURE_CODING not in [finding.hop for finding in examine(hdfs.top)]
    path = hdfs.top.removeprefix(cluster.uri)
    cluster.set_erasure_coding(path)
    finding = next(finding for finding in examine(hdfs.top) if finding.hop is Hop.ERASURE_CODING)
    assert finding.severity is Severity.WARNING
    assert f"hdfs ec -getPolicy -path {path}" in str(finding.hint)


def test_the_check_finds_a_healthy_cluster_and_what_is_wrong(
    hdfs: Store, cluster: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_check, "SLOW_CLOSE_SECONDS", 60.0)  # a busy machine closes no file in time
    clusters, warehouse = HdfsFileSystems(Deadlines(30)), f"{hdfs.top}/data/warehouse"
    hdfs.storage.write_new(f"{warehouse}/f", b"1")
    findings = examine(warehouse)
    assert [finding.hop for finding in findings if finding.severity is not Severity.OK] == []
    assert [finding.hop for finding in findings][2:] == [Hop.PERMISSION, Hop.SLOW_CLOSE, Hop.QUOTA, Hop.QUOTA]
    assert hdfs.names() == ["data/warehouse/f"]
    status = clusters.ping(warehouse)
    assert (status.address, status.error) == (cluster.uri, None)
    path = hdfs.top.removeprefix(cluster.uri)
    cluster.administer("-setQuota", "12", f"{path}/data/warehouse")
    assert [finding.message for finding in examine(warehouse)][-2] == "the quota has room"
    client, _ = calls.connect(warehouse)
    client.set_permission(f"{path}/data/warehouse", 0o755)
    monkeypatch.setenv("HADOOP_USER_NAME", "lily")
    denied = examine(warehouse)[-1]
    assert (denied.hop, denied.severity) == (Hop.PERMISSION, Severity.FAILED)
    assert f'user=lily, access=WRITE, inode="{path}/data/warehouse"' in denied.message


def test_safe_mode_is_waited_for_and_then_told(
    hdfs: Store, cluster: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    cluster.administer("-safemode", "enter")
    try:
        finding = examine(hdfs.top)[-1]
        assert (finding.hop, finding.severity) == (Hop.SAFE_MODE, Severity.FAILED)
        with pytest.raises(Unavailable, match=r"cannot write .*/g: .*Name node is in safe mode"):
            hdfs.storage.write_new(f"{hdfs.top}/g", b"1")
        assert hdfs.storage.read(f"{hdfs.top}/f") == b"1"
        monkeypatch.setattr(calls, "_LONGEST_PAUSE_SECONDS", 0.2)
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(calls.call, lambda: hdfs.storage.write_new(f"{hdfs.top}/h", b"1"), seconds=30)
            cluster.administer("-safemode", "leave")
            if isinstance(error := writing.exception(), Unavailable):  # a slow machine
                hdfs.storage.write_new(f"{hdfs.top}/h", b"1")
            else:
                assert error is None
    finally:
        cluster.administer("-safemode", "leave")
    assert hdfs.names() == ["f", "h"]


def test_a_missing_name_node_is_given_up_within_seconds() -> None:
    with pytest.raises(Unavailable, match=r"cannot read hdfs://127.0.0.1:1/f: Connection refused"):
        Storage().read("hdfs://127.0.0.1:1/f")
    with pytest.raises(Invalid, match=r"No NameNode hosts found: the name service is in no core-site.xml"):
        Storage().read("hdfs://nowhere/f")


@pytest.fixture
def standby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    """The second of two name nodes, which waits to be made active; the first is missing. There are no data nodes."""
    daemons = Daemons(tmp_path / "hdfs", name_nodes=("nn1", "nn2"), data_nodes=())
    daemons.format()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(daemons.conf_dir))
    try:
        daemons.start("nn2")
        daemons.wait_for_answer("nn2")
        yield daemons
    finally:
        daemons.stop()


def test_a_standby_is_asked_for_seconds_until_it_is_active(standby: Daemons) -> None:
    location = f"{standby.uri}/f"
    with pytest.raises(Unavailable, match="is not supported in state standby") as refused:
        Storage().read(location)
    assert "haadmin -getAllServiceState" in str(refused.value.hint)
    *_, missing, waiting, last = examine(standby.uri)
    assert (missing.hop, missing.severity) == (Hop.NAME_NODE, Severity.WARNING)
    assert (waiting.hop, waiting.severity) == (Hop.NAME_NODE, Severity.OK)
    assert (last.hop, last.severity) == (Hop.NAME_NODE, Severity.FAILED)
    assert "standby" in last.message
    standby.activate("nn2")
    with pytest.raises(NotFound):
        Storage().read(location)


@pytest.mark.model
def test_the_check_names_an_encryption_zone(tmp_path: Path) -> None:
    """The name node takes the zone's key from a file; the client would need a KMS, and does not write without."""
    provider = f"jceks://file{tmp_path}/keys"
    daemons = Daemons(tmp_path / "hdfs", data_nodes=(), own_settings={"hadoop.security.key.provider.path": provider})
    daemons.format()
    daemons.run_tool("org.apache.hadoop.crypto.key.KeyShell", "create", "sales", "-provider", provider)
    try:
        daemons.start("nn1")
        daemons.wait_for_answer("nn1")
        zone = f"{daemons.uri}/secret"
        files.make_directories(zone)
        daemons.run_tool(
            "org.apache.hadoop.hdfs.tools.CryptoAdmin", "-createZone", "-keyName", "sales", "-path", "/secret"
        )
        finding = examine(zone)[-1]
        assert (finding.hop, finding.severity) == (Hop.ENCRYPTION_ZONE, Severity.FAILED)
        assert "hadoop.security.key.provider.path" in str(finding.hint)
        with pytest.raises(Unavailable, match=r"cannot write .*/secret/f: .*encryption zone"):
            Storage().write_new(f"{zone}/f", b"1")
    finally:
        daemons.stop()
