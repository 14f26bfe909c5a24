"""Published directories on HDFS: the readers of the replaced directory, and nobody else, read the new one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from catalog.errors import Conflict
from firn.hdfs import access, calls
from firn.hdfs.access import Entry
from server.files.deadlines import Deadlines
from server.files.permissions import StoredPermissions
from server.service.hive.published_permissions import PublishedPermissions, Replacement
from tests.fake_hdfs import FakeEntry, FakeHdfs, FakeRights

TOP = "hdfs://fake:8020"
OLD, OWN = "/hive/t/p=x", "/warehouse/published/1"
NEW = f"{OWN}/job/1/p=x"
ANN = FakeEntry("user", "access", "r-x", 'Some("ann")')
OF_GROUP = FakeEntry("group", "access", "r-x", "None")
DEFAULT = tuple(
    FakeEntry(kind, "default", bits, name)
    for kind, bits, name in [
        ("user", "rwx", "None"),
        ("user", "r-x", 'Some("ann")'),
        ("group", "r-x", "None"),
        ("mask", "r-x", "None"),
        ("other", "---", "None"),
    ]
)


@dataclass
class Cluster:
    """A partition of lily's, and the directory that a publish has written."""

    hdfs: FakeHdfs
    permissions: PublishedPermissions

    def own(self, mode: int, *acl: FakeEntry, files: int | None = None, owner: str = "lily") -> None:
        self.hdfs.rights[OLD] = FakeRights(owner, "hive", mode, acl)
        self.hdfs.rights[f"{OLD}/a"] = FakeRights(owner, "hive", mode & 0o666 if files is None else files)

    def keep(self, replaced: str | None = OLD) -> None:
        location = None if replaced is None else TOP + replaced
        new = Replacement(directory=TOP + NEW, files=[f"{TOP}{NEW}/b"], replaced=location, parent=f"{TOP}/hive/t")
        self.permissions.keep(TOP + OWN, [new])

    def read(self, path: str = NEW) -> tuple[str, int, list[Entry]]:
        rights = access.read_rights(TOP + path)
        return f"{rights.owner}:{rights.group}", rights.mode, sorted(rights.entries)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    hdfs = FakeHdfs(tmp_path)
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: hdfs)
    monkeypatch.setattr(calls, "_clients", {})
    monkeypatch.setenv("HADOOP_USER_NAME", "firn")
    for path in (f"{OLD}/a", f"{NEW}/b"):
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True)
        (tmp_path / path.lstrip("/")).touch()
    return Cluster(hdfs, PublishedPermissions(StoredPermissions(Deadlines(10))))


def test_a_superuser_keeps_owner_group_mode_and_acl(cluster: Cluster) -> None:
    cluster.hdfs.is_superuser = True
    cluster.own(0o1750, ANN, OF_GROUP, *DEFAULT, files=0o640)
    cluster.keep()
    assert cluster.read() == cluster.read(OLD)
    assert cluster.read()[:2] == ("lily:hive", 0o1750)
    assert cluster.read(f"{NEW}/b") == ("lily:hive", 0o640, [])
    assert {Entry("user", "ann", 5), Entry("user", "ann", 5, is_default=True)} <= {*cluster.read()[2]}


def test_an_owner_of_the_group_keeps_group_and_mode(cluster: Cluster) -> None:
    cluster.hdfs.groups = {"hive"}
    cluster.own(0o750, owner="firn", files=0o640)
    cluster.keep()
    assert cluster.read() == ("firn:hive", 0o750, [])
    assert cluster.read(f"{NEW}/b") == ("firn:hive", 0o640, [])


def test_an_acl_stands_for_owner_and_group_that_firn_may_not_set(cluster: Cluster) -> None:
    cluster.own(0o750, files=0o640)
    cluster.keep()
    owner, mode, entries = cluster.read()
    assert (owner, mode) == ("firn:supergroup", 0o770), "the group bits are the mask"
    assert entries == [Entry("group", "", 0), Entry("group", "hive", 5), Entry("user", "lily", 7)]
    assert cluster.read(f"{NEW}/b") == (
        "firn:supergroup",
        0o660,
        [Entry("group", "", 0), Entry("group", "hive", 4), Entry("user", "lily", 6)],
    )


def test_what_the_new_directory_inherited_goes(cluster: Cluster) -> None:
    cluster.own(0o755, owner="firn")
    cluster.hdfs.rights[OLD] = FakeRights()
    cluster.hdfs.rights[NEW] = FakeRights(mode=0o1775, acl=(ANN, OF_GROUP, *DEFAULT))
    cluster.keep()
    assert cluster.read() == ("firn:supergroup", 0o755, [])


def test_directories_above_are_entered_and_not_listed(cluster: Cluster) -> None:
    cluster.own(0o750)
    cluster.hdfs.rights[f"{OWN}/job"] = FakeRights(mode=0o700)
    cluster.keep()
    assert [cluster.read(path)[1] for path in (OWN, f"{OWN}/job", f"{OWN}/job/1")] == [0o711] * 3
    assert cluster.read("/warehouse/published")[1] == 0o755


def test_directories_for_all_stay_as_they_are(cluster: Cluster) -> None:
    cluster.own(0o755, owner="firn")
    cluster.hdfs.rights[OLD] = FakeRights()
    cluster.keep()
    assert f"{OWN}/job" not in cluster.hdfs.rights
    cluster.hdfs.rights[f"{OWN}/job"] = FakeRights(mode=0o700)
    cluster.keep()
    assert cluster.read(f"{OWN}/job")[1] == 0o711


def test_files_are_as_closed_as_the_most_closed_one(cluster: Cluster) -> None:
    cluster.own(0o755, files=0o600, owner="firn")
    cluster.hdfs.groups = {"hive"}
    other = cluster.hdfs.top / OLD.lstrip("/") / "c"
    other.touch()
    cluster.hdfs.rights[f"{OLD}/c"] = FakeRights("firn", "hive", 0o644)
    cluster.keep()
    assert cluster.read()[1] == 0o755
    assert cluster.read(f"{NEW}/b")[1] == 0o600


def test_a_new_partition_gets_what_hive_would_give_it(cluster: Cluster) -> None:
    cluster.hdfs.is_superuser = True
    cluster.hdfs.rights["/hive/t"] = FakeRights("lily", "hive", 0o770, DEFAULT)
    cluster.keep(replaced=None)
    owner, mode, entries = cluster.read()
    assert (owner, mode) == ("lily:hive", 0o750)
    assert entries[:3] == [Entry("group", "", 5), Entry("group", "", 5, is_default=True), Entry("mask", "", 5, True)]
    assert Entry("user", "ann", 5) in entries
    cluster.keep(replaced="/hive/t/missing")
    assert cluster.read()[1] == 0o750


def test_readers_that_an_acl_would_have_to_keep_stop_a_publish_without_acls(cluster: Cluster) -> None:
    cluster.hdfs.has_acls = False
    cluster.own(0o750)
    with pytest.raises(Conflict, match=r"user lily, group hive could not read .*: .*acls.enabled to false") as refused:
        cluster.keep()
    assert "dfs.namenode.acls.enabled" in str(refused.value.hint)
    cluster.own(0o755)
    cluster.keep()
    assert cluster.read()[:2] == ("firn:supergroup", 0o755)


def test_files_of_another_user_stay_only_if_the_same_readers_read_them(cluster: Cluster) -> None:
    cluster.hdfs.rights |= {path: FakeRights("spark", "supergroup", 0o755) for path in (NEW, OWN, f"{OWN}/job")}
    cluster.hdfs.rights[f"{NEW}/b"] = FakeRights("spark", "supergroup", 0o644)
    cluster.own(0o755)
    cluster.keep()
    assert cluster.read()[:2] == ("spark:supergroup", 0o755)
    cluster.own(0o750)
    with pytest.raises(Conflict, match=r"all others could read .*/b, .* not the owner"):
        cluster.keep()


def test_the_check_before_names_what_firn_may_not_set(cluster: Cluster) -> None:
    cluster.own(0o750, ANN, OF_GROUP)
    cluster.hdfs.rights["/warehouse"] = FakeRights(mode=0o700)
    preview = cluster.permissions.preview(TOP + OWN, TOP + OLD)
    assert preview is not None
    assert preview.permissions == "lily:hive rwxr-x---+"
    assert preview.not_kept == (
        "the owner is firn instead of lily: an ACL entry gives the same access",
        "the group is supergroup instead of hive: an ACL entry gives the same access",
        f"others may not enter {TOP}/warehouse, so users of Hive may not reach the new directory",
    )
    assert "hdfs dfs -setfacl -m default:user:firn:r-x" in str(preview.hint)
    assert preview.refused is None
    assert not [path for path in cluster.hdfs.top.rglob("*") if "probe" in path.name]
    cluster.hdfs.has_acls = False
    preview = cluster.permissions.preview(TOP + OWN, TOP + OLD)
    assert preview is not None
    assert "could not read the published files" in str(preview.refused)


def test_the_check_before_has_nothing_to_say_for_a_superuser_and_for_object_stores(cluster: Cluster) -> None:
    cluster.hdfs.is_superuser = True
    cluster.own(0o750)
    preview = cluster.permissions.preview(f"{TOP}/warehouse/published/none", TOP + OLD)
    assert preview is not None
    assert (preview.not_kept, preview.refused, preview.hint) == ((), None, None)
    assert cluster.permissions.preview("s3://b/published", TOP + OLD) is None


def test_what_everybody_reads_is_not_private(cluster: Cluster) -> None:
    cluster.own(0o755)
    assert not cluster.permissions.is_private([TOP + OLD, "s3://b/t", f"{TOP}/none"])
    cluster.own(0o750)
    assert cluster.permissions.is_private(["s3://b/t", TOP + OLD])
