"""The check of an HDFS names the hop that fails, and what to do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.ports.hadoop import Finding, Hop, Severity
from firn.hdfs import calls
from server.files import hdfs_check
from server.files.deadlines import Deadlines
from server.files.hdfs_check import HdfsFileSystems
from tests.fake_hdfs import FakeHdfs

JAVA = "org.apache.hadoop"
DENIED = 'Permission denied: user=firn, access=WRITE, inode=\\"/w\\":hive:hive:drwxr-x---'


@pytest.fixture
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHdfs:
    fake = FakeHdfs(tmp_path)
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: fake)
    monkeypatch.setattr(calls, "_clients", {})
    monkeypatch.setattr(calls.call, "__kwdefaults__", {**(calls.call.__kwdefaults__ or {}), "seconds": 0.0})
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_USER_NAME", "firn")
    (tmp_path / "data" / "w").mkdir(parents=True)
    return fake


@pytest.fixture
def address() -> Iterator[str]:
    """An address at which something accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"hdfs://127.0.0.1:{server.getsockname()[1]}"


def examine(location: str) -> list[Finding]:
    return [*HdfsFileSystems(Deadlines(10)).examine(location)]


def write_configuration(directory: Path, properties: dict[str, str]) -> None:
    lines = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
    )
    (directory / "core-site.xml").write_text(f"<configuration>{lines}</configuration>", encoding="utf-8")


def test_a_healthy_cluster_has_no_problem_and_keeps_no_file(hdfs: FakeHdfs, address: str) -> None:
    findings = examine(f"{address}/data/w/new")
    assert {finding.severity for finding in findings} == {Severity.OK}
    hops = [finding.hop for finding in findings]
    assert hops == [Hop.CONFIGURATION, Hop.NAME_NODE, Hop.PERMISSION, Hop.SLOW_CLOSE, Hop.QUOTA]
    assert findings[2].message == "firn may write (firn:supergroup, mode 755)"
    assert sorted(path.name for path in hdfs.top.rglob("*")) == ["data", "w"]


@pytest.mark.usefixtures("hdfs")
def test_an_unknown_name_service_is_a_matter_of_configuration() -> None:
    [finding] = examine("hdfs://prod/w")
    assert (finding.hop, finding.severity, finding.location) == (Hop.CONFIGURATION, Severity.FAILED, "hdfs://prod")
    assert "HADOOP_CONF_DIR is not set" in finding.message


@pytest.mark.usefixtures("hdfs")
def test_an_unknown_host_is_a_matter_of_dns() -> None:
    finding = examine("hdfs://nowhere.invalid:8020/w")[-1]
    assert (finding.hop, finding.severity) == (Hop.DNS, Severity.FAILED)
    assert finding.message.startswith("the host nowhere.invalid is unknown")


@pytest.mark.usefixtures("hdfs")
def test_a_port_at_which_nothing_answers_is_a_missing_name_node() -> None:
    finding = examine("hdfs://127.0.0.1:1/w")[-1]
    assert (finding.hop, finding.severity, finding.location) == (Hop.NAME_NODE, Severity.FAILED, "127.0.0.1:1")


@pytest.mark.usefixtures("hdfs")
def test_of_two_name_nodes_one_may_be_down(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = address.removeprefix("hdfs://")
    names = {"dfs.namenode.rpc-address.prod.a": "127.0.0.1:1", "dfs.namenode.rpc-address.prod.b": node}
    write_configuration(tmp_path, {"dfs.ha.namenodes.prod": "a, b", **names})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    findings = examine("hdfs://prod/data/w")
    assert [(finding.hop, finding.severity) for finding in findings[1:3]] == [
        (Hop.NAME_NODE, Severity.WARNING),
        (Hop.NAME_NODE, Severity.OK),
    ]
    assert findings[-1].hop is Hop.QUOTA
    status = HdfsFileSystems(Deadlines(10)).ping("hdfs://prod/data/w")
    assert (status.name_nodes, status.error) == (("127.0.0.1:1", node), None)


@pytest.mark.parametrize(
    ("words", "hop", "message"),
    [
        (
            f'RPCError("{JAVA}.security.AccessControlException", "{DENIED}\\n\\tat x")',
            Hop.PERMISSION,
            'inode="/w":hive',
        ),
        (f'RPCError("{JAVA}.hdfs.SafeModeException", "Name node is in safe mode.")', Hop.SAFE_MODE, "safe mode"),
        (f'RPCError("{JAVA}.ipc.StandbyException", "not supported in state standby")', Hop.NAME_NODE, "standby"),
        (f'RPCError("{JAVA}.NSQuotaExceededException", "quota of /w is exceeded")', Hop.QUOTA, "/w is exceeded"),
        ('UnsupportedErasureCodingPolicy("codec: xor")', Hop.ERASURE_CODING, "codec: xor"),
        (
            (
                'OperationFailed("File is in an HDFS encryption zone but no KMS provider is configured (set '
                '`hadoop.security.key.provider.path` in core-site.xml)")'
            ),
            Hop.ENCRYPTION_ZONE,
            "no KMS provider is configured",
        ),
        ('GSSAPIError(GSS_C_ROUTINE_ERROR, 1, "No Kerberos credentials available")', Hop.KERBEROS, "credentials"),
    ],
)
def test_a_refusal_is_named_by_its_hop(
    hdfs: FakeHdfs, address: str, monkeypatch: pytest.MonkeyPatch, words: str, hop: Hop, message: str
) -> None:
    def refuse(_path: str, *, create_parent: bool) -> None:
        raise RuntimeError(words) from AssertionError(create_parent)

    monkeypatch.setattr(hdfs, "mkdirs", refuse)
    finding = examine(f"{address}/data/w")[-1]
    assert (finding.hop, finding.severity) == (hop, Severity.FAILED)
    assert message in finding.message
    assert finding.hint


def test_an_erasure_coded_directory_is_a_warning_because_its_policy_is_unknown(hdfs: FakeHdfs, address: str) -> None:
    hdfs.erasure_coded = "/data/w"
    [warning] = [finding for finding in examine(f"{address}/data/w") if finding.severity is not Severity.OK]
    assert (warning.hop, warning.severity) == (Hop.ERASURE_CODING, Severity.WARNING)
    assert warning.message == "files are erasure coded, and the client supports Reed-Solomon policies (RS-…) only"
    assert "hdfs ec -getPolicy -path /data/w; if it is XOR or RS-LEGACY, set a Reed-Solomon" in str(warning.hint)


def test_a_slow_close_names_the_setting_of_the_name_node(
    hdfs: FakeHdfs, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_check, "SLOW_CLOSE_SECONDS", 0.01)
    hdfs.close_seconds = 0.02
    finding = next(finding for finding in examine(f"{address}/data/w") if finding.hop is Hop.SLOW_CLOSE)
    assert finding.severity is Severity.WARNING
    assert "dfs.namenode.file.close.num-committed-allowed" in str(finding.hint)


def test_a_quota_that_is_nearly_used_up_is_a_warning(hdfs: FakeHdfs, address: str) -> None:
    (hdfs.top / "user" / "firn" / "w").mkdir(parents=True)
    (hdfs.top / "user" / "firn" / "f").write_bytes(b"1" * 950)
    hdfs.quotas = {"/user/firn": (1000, 1000), "/user/firn/w": (100, 100)}
    quotas = [finding for finding in examine(f"{address}/user/firn/w") if finding.hop is Hop.QUOTA]
    assert [finding.severity for finding in quotas] == [Severity.OK, Severity.WARNING]
    assert quotas[1].message == "the quota is nearly used up: 950 of 1,000 bytes with replicas"


def test_a_warehouse_on_viewfs_is_checked_on_the_hdfs_behind_it(
    hdfs: FakeHdfs, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    table = "fs.viewfs.mounttable.cl"
    write_configuration(
        tmp_path, {f"{table}.link./lake": f"{address}/data/new", f"{table}.link./old": f"{address}/data"}
    )
    findings = examine("viewfs://cl/lake/w")
    assert {finding.severity for finding in findings} == {Severity.OK}
    assert findings[0].message == f"name nodes: {address.removeprefix('hdfs://')}"
    assert findings[2].location == f"{address}/data", "the directory behind the mount point is missing"
    assert examine("viewfs://cl/old/w")[2].location == "viewfs://cl/old/w"
    [finding] = examine("viewfs://cl/elsewhere")
    assert (finding.hop, finding.severity) == (Hop.CONFIGURATION, Severity.FAILED)
    assert finding.message.startswith("viewfs://cl/elsewhere is behind no mount point")
    assert hdfs.listed == []


def test_each_mount_point_of_viewfs_has_a_state_of_its_own(
    hdfs: FakeHdfs, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may lead to different clusters, one of which does not answer."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    write_configuration(tmp_path, {"fs.viewfs.mounttable.cl.link./lake": address})
    systems = HdfsFileSystems(Deadlines(10))
    assert systems.get_address("viewfs://cl/lake/w") == "viewfs://cl/lake"
    assert systems.get_address("hdfs://prod/lake/w") == "hdfs://prod"
    status = systems.ping("viewfs://cl/lake/w")
    assert (status.address, status.name_nodes) == ("viewfs://cl/lake", (address.removeprefix("hdfs://"),))
    assert status.error is None
    assert "no mount point" in str(systems.ping("viewfs://cl/w").error)
    assert hdfs.listed == []
