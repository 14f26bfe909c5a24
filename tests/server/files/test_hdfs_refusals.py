"""What a request answers when HDFS refuses: the words of Hadoop 3.4.2 or of its client, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import CatalogError, Denied, Invalid, Unavailable
from firn.hdfs import calls
from server.files.quarantine import QuarantineFiles
from server.files.storage import Storage
from tests.fake_hdfs import FakeHdfs

TOP = "hdfs://prod"
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode"
PROTOCOL = "org.apache.hadoop.hdfs.protocol"


def rpc(kind: str, words: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{kind}", "{words}\\n\\tat {NAME_NODE}.FSNamesystem.startFile")')


STANDBY = rpc(
    "org.apache.hadoop.ipc.StandbyException",
    "Operation category WRITE is not supported in state standby. Visit https://s.apache.org/sbnn-error",
)
SAFE_MODE = rpc(
    f"{NAME_NODE}.SafeModeException", r"Cannot create file/w/f. Name node is in safe mode.\nIt was turned on manually."
)
CASES = {
    "standby": (STANDBY, Unavailable, "not supported in state standby", "haadmin -getAllServiceState"),
    "starting": (
        rpc("org.apache.hadoop.ipc.RetriableException", "NameNode still not started"),
        Unavailable,
        "NameNode still not started",
        "haadmin -getAllServiceState",
    ),
    "missing": (
        OSError("Connection refused (os error 111)"),
        Unavailable,
        "Connection refused",
        "Check that a name node is active",
    ),
    "safe mode": (SAFE_MODE, Unavailable, "Name node is in safe mode. It was turned on", "dfsadmin -safemode leave"),
    "name service": (
        RuntimeError('InvalidArgument("No NameNode hosts found")'),
        Invalid,
        "the name service is in no core-site.xml",
        "hadoop.conf_dir",
    ),
    "name quota": (
        rpc(
            f"{PROTOCOL}.NSQuotaExceededException",
            "The NameSpace quota (directories and files) of directory /w is exceeded: quota=2 file count=3",
        ),
        Unavailable,
        "of directory /w is exceeded: quota=2 file count=3",
        "-setQuota",
    ),
    "space quota": (
        rpc(
            f"{PROTOCOL}.DSQuotaExceededException",
            "The DiskSpace quota of /w is exceeded: quota = 1048576 B = 1 MB but diskspace consumed = 268435456 B",
        ),
        Unavailable,
        "The DiskSpace quota of /w is exceeded: quota = 1048576 B",
        "-setSpaceQuota",
    ),
    "permission": (
        rpc(
            "org.apache.hadoop.security.AccessControlException",
            r"Permission denied: user=firn, access=WRITE, inode=\"/w\":hive:hive:drwxr-x---",
        ),
        Denied,
        'user=firn, access=WRITE, inode="/w":hive:hive:drwxr-x---',
        "hdfs dfs -chown",
    ),
    "colon": (
        rpc("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /w/a:b"),
        Invalid,
        "/w/a:b",
        "without a colon",
    ),
    "encryption zone": (
        RuntimeError(
            'OperationFailed("File is in an HDFS encryption zone but no KMS provider is configured (set '
            '`hadoop.security.key.provider.path` in core-site.xml)")'
        ),
        Unavailable,
        "File is in an HDFS encryption zone but no KMS provider is configured",
        "to the cluster's KMS",
    ),
    "erasure coding": (
        RuntimeError('UnsupportedErasureCodingPolicy("codec: xor")'),
        Unavailable,
        "UnsupportedErasureCodingPolicy: codec: xor",
        "Reed-Solomon",
    ),
    "service principal": (
        RuntimeError(
            'GSSAPIError(GssMajorCodes { raw: "0x000d0000" }, 2529638919, "Unspecified GSS failure: '
            'Server hdfs/_host@FIRN.TEST not found in Kerberos database")'
        ),
        Unavailable,
        "no Kerberos ticket for HDFS: Server hdfs/_host@FIRN.TEST not found in Kerberos database",
        "docs/clusters.md",
    ),
}


@pytest.fixture
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHdfs:
    fake = FakeHdfs(tmp_path)
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: fake)
    monkeypatch.setattr(calls, "_clients", {})
    monkeypatch.setattr(calls.call, "__kwdefaults__", {**(calls.call.__kwdefaults__ or {}), "sleep": lambda _: None})
    return fake


@pytest.mark.parametrize(("refusal", "kind", "words", "hint"), CASES.values(), ids=CASES)
def test_a_refusal_keeps_the_name_nodes_words_and_says_what_to_do(
    hdfs: FakeHdfs,
    monkeypatch: pytest.MonkeyPatch,
    refusal: BaseException,
    kind: type[CatalogError],
    words: str,
    hint: str,
) -> None:
    def refuse(_path: str) -> None:
        raise refusal

    monkeypatch.setattr(calls, "RETRY_SECONDS", 0.0)
    monkeypatch.setitem(calls.call.__kwdefaults__ or {}, "seconds", 0.0)
    monkeypatch.setattr(hdfs, "create", refuse)
    with pytest.raises(kind) as refused:
        Storage().write_new(f"{TOP}/w/f", b"1")
    assert type(refused.value) is kind
    assert words in refused.value.message
    assert f"{TOP}/w/f" in refused.value.message
    assert "java" not in refused.value.message
    assert "\tat" not in refused.value.message
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize("refusal", [STANDBY, SAFE_MODE], ids=["standby", "safe mode"])
def test_a_name_node_that_is_busy_for_a_moment_is_not_noticed(hdfs: FakeHdfs, refusal: BaseException) -> None:
    hdfs.refusals = [refusal] * 3
    Storage().write_new(f"{TOP}/w/f", b"1")
    hdfs.refusals = [refusal] * 3
    assert Storage().read(f"{TOP}/w/f") == b"1"
    assert hdfs.refusals == []


def test_percent_signs_stay_as_they_are(hdfs: FakeHdfs) -> None:
    Storage().write_new(f"{TOP}/w/p=a%3Ab/f", b"1")
    assert [path.name for path in (hdfs.top / "w").iterdir()] == ["p=a%3Ab"]
    assert not Storage().exists(f"{TOP}/w/p=a:b/f")


def test_a_file_is_not_renamed_from_one_name_service_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mount points of one ViewFS lead to two name services."""
    links = {"data": "hdfs://a/d", "archive": "hdfs://b/d"}
    properties = "".join(
        f"<property><name>fs.viewfs.mounttable.cl.link./{name}</name><value>{target}</value></property>"
        for name, target in links.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    quarantine = QuarantineFiles(Storage())
    assert quarantine.can_move("viewfs://cl/data/t/f", "viewfs://cl/data/q")
    assert not quarantine.can_move("viewfs://cl/data/t/f", "viewfs://cl/archive/q")
    assert not quarantine.can_move("hdfs://a/t/f", "hdfs://b/q")


def test_a_rename_that_a_mount_point_refuses_says_what_to_do(hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: str, _target: str, *, overwrite: bool) -> None:
        raise RuntimeError('InvalidArgument("Cannot rename across different name services")') from AssertionError(
            overwrite
        )

    Storage().write_new(f"{TOP}/w/f", b"1")
    monkeypatch.setattr(hdfs, "rename", refuse)
    with pytest.raises(Invalid, match="Cannot rename across different name services") as refused:
        QuarantineFiles(Storage()).move(f"{TOP}/w/f", f"{TOP}/q/f")
    assert "one mount point of one name service" in str(refused.value.hint)
