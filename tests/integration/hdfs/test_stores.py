"""One behaviour on a local disk, on HDFS and in S3; then what only HDFS has: users, quotas, safe mode, open files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest
from hdfs_native import AclEntry as ClientEntry
from hdfs_native import WriteOptions

from catalog.errors import AlreadyExists, Denied, Invalid, NotFound, Unavailable
from catalog.files.permissions import AclEntry, Permissions
from catalog.ports.hadoop import Hop, Severity
from firn.hdfs import calls, files
from firn.hdfs.files import HdfsWriter
from server.files import hdfs_check
from server.files.deadlines import Deadlines
from server.files.hdfs_check import HdfsFileSystems
from server.files.listing import Listings
from server.files.permissions import StoredPermissions
from server.files.quarantine import QuarantineFiles
from server.files.read_limits import NotRegular, TooLarge
from server.files.storage import Storage
from server.service.hive.published_permissions import PublishedPermissions, Replacement
from tests.integration.hdfs.mini_cluster import MiniCluster, shared_cluster
from tests.s3_fixtures import client_of_s3, s3_server


@dataclass(frozen=True)
class Store:
    kind: str
    top: str
    properties: dict[str, str]

    @property
    def storage(self) -> Storage:
        return Storage(self.properties)

    @property
    def listings(self) -> Listings:
        return Listings(self.properties)

    @property
    def quarantine(self) -> QuarantineFiles:
        return QuarantineFiles(self.storage, self.properties)

    @property
    def permissions(self) -> PublishedPermissions:
        return PublishedPermissions(StoredPermissions(Deadlines(30)))

    def names(self, directory: str = "") -> list[str]:
        listing = self.listings.list(f"{self.top}{directory}", recursive=True)
        return [file.path for file in listing.files]


@pytest.fixture(scope="session")
def cluster() -> MiniCluster:
    return shared_cluster()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as endpoint:
        client_of_s3(endpoint).create_bucket(Bucket="stores")
        keys = {"s3.access-key-id": "admin", "s3.secret-access-key": "admin", "s3.region": "us-east-1"}
        yield {"s3.endpoint": endpoint, **keys}


@pytest.fixture(params=["local", "hdfs", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    unique = uuid4().hex
    match request.param:
        case "hdfs":
            cluster: MiniCluster = request.getfixturevalue("cluster")
            return Store("hdfs", f"{cluster.uri}/{unique}", {})
        case "s3":
            return Store("s3", f"s3://stores/{unique}", request.getfixturevalue("s3"))
        case _:
            return Store("local", tmp_path.as_uri(), {})


@pytest.fixture
def hdfs(cluster: MiniCluster) -> Store:
    return Store("hdfs", f"{cluster.uri}/{uuid4().hex}", {})


@pytest.mark.parametrize("name", ["v1.metadata.json", "day=2026-01-01/a b/ü%3A%20#1?.parquet"])
def test_what_is_written_is_read_back(store: Store, name: str) -> None:
    if store.kind == "s3" and "#" in name:
        pytest.skip("PyArrow's S3 takes a location as a URI")
    location, storage = f"{store.top}/deep/{name}", store.storage
    assert not storage.exists(location)
    storage.write_new(location, b"0123456789")
    assert (storage.read(location), storage.size(location), storage.exists(location)) == (b"0123456789", 10, True)
    assert storage.tail(location, 4) == (b"6789", 10)
    assert storage.tail(location, 40) == (b"0123456789", 10)
    with storage.opened(location) as (file, size):
        assert (size, file.seek(3), file.read(2), file.read()) == (10, 3, b"34", b"56789")
    assert store.names("/deep") == [name]
    storage.delete(location)
    storage.delete(location)
    assert store.names() == []


def test_an_empty_and_a_large_file(store: Store) -> None:
    data = os.urandom(3 * 2**20 + 1)
    store.storage.write_new(f"{store.top}/empty", b"")
    store.storage.write_new(f"{store.top}/large", data)
    assert store.storage.read(f"{store.top}/empty") == b""
    assert store.storage.read(f"{store.top}/large") == data
    with store.storage.opened(f"{store.top}/large") as (file, _):
        file.seek(2**20)
        assert file.read(100) == data[2**20 : 2**20 + 100]


def test_a_missing_file_is_not_found(store: Store) -> None:
    for ask in (store.storage.read, store.storage.size, lambda name: store.storage.tail(name, 8)):
        with pytest.raises(NotFound, match="none does not exist"):
            ask(f"{store.top}/none")


def test_a_file_above_the_limit_is_not_read(store: Store) -> None:
    store.storage.write_new(f"{store.top}/f", bytes(11))
    with pytest.raises(TooLarge):
        store.storage.read(f"{store.top}/f", 10)


def test_a_written_file_is_never_overwritten(store: Store) -> None:
    store.storage.write_new(f"{store.top}/f", b"first")
    with pytest.raises(AlreadyExists, match="exists already"):
        store.storage.write_new(f"{store.top}/f", b"second")
    assert store.storage.read(f"{store.top}/f") == b"first"


def test_one_of_many_writers_wins(store: Store) -> None:
    """S3 of the tests knows no conditional write, so there the last one may win; nowhere are two mixed."""
    start = threading.Barrier(8)

    def write(number: int) -> bool:
        start.wait()
        try:
            store.storage.write_new(f"{store.top}/t/f", str(number).encode() * 5000)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, wins in enumerate(pool.map(write, range(8))) if wins]
    if store.kind != "s3":
        assert len(won) == 1
    assert store.storage.read(f"{store.top}/t/f") in [str(number).encode() * 5000 for number in won]
    assert [entry.rpartition("/")[2] for entry in store.quarantine.names(f"{store.top}/t")] == ["f"]


def test_a_directory_goes_with_all_in_it(store: Store) -> None:
    for name in ("d/a", "d/x/b", "e"):
        store.storage.write_new(f"{store.top}/{name}", b"1")
    store.storage.delete_directory(f"{store.top}/d")
    assert store.names() == ["e"]
    store.storage.delete_directory(f"{store.top}/none")


def test_a_listing_shows_what_hive_reads(store: Store) -> None:
    names = [
        "a%3A b",
        "b",
        "_SUCCESS",
        ".c.crc",
        "_temporary/0/x",
        ".hive-staging_1/x",
        "sub/d",
        "e._COPYING_",
        "empty",
    ]
    for name in names:
        store.storage.write_new(f"{store.top}/p=1/{name}", b"" if name == "empty" else b"12345")
    listing = store.listings.list(f"{store.top}/p=1")
    assert [file.path for file in listing.files] == ["a%3A b", "b"]
    assert {file.size for file in listing.files} == {5}
    assert listing.subdirectories == ("sub",)
    assert listing.is_being_written
    assert listing.may_grow
    assert store.names("/p=1") == ["a%3A b", "b", "sub/d"]
    assert store.listings.list(f"{store.top}/p=2").files == ()


def test_a_directory_tells_that_a_file_came_where_it_has_times(store: Store) -> None:
    store.storage.write_new(f"{store.top}/p/a", b"1")
    before = store.listings.modified_ns(f"{store.top}/p")
    assert (before is None) is (store.kind == "s3")
    store.storage.write_new(f"{store.top}/p/b", b"1")
    if store.kind != "s3":
        assert store.listings.modified_ns(f"{store.top}/p") != before
        assert store.listings.modified_ns(f"{store.top}/none") == 0


def test_the_quarantine_moves_where_the_store_renames(store: Store) -> None:
    quarantine, here, there = store.quarantine, f"{store.top}/t/x", f"{store.top}/q/deep/x"
    store.storage.write_new(here, b"rows")
    (before,) = quarantine.inspect([here])
    assert before is not None
    assert before.bytes == 4
    assert quarantine.can_move(here, f"{store.top}/q") is (store.kind != "s3")
    if store.kind == "s3":
        with pytest.raises(Unavailable, match="cannot rename"):
            quarantine.move(here, there)
        return
    quarantine.move(here, there)
    (after,) = quarantine.inspect([there])
    assert after is not None
    assert after.same_as(before)
    assert quarantine.is_moved(here, there)
    store.storage.write_new(here, b"other")
    with pytest.raises(AlreadyExists, match=r"q/deep/x exists already"):
        quarantine.move(here, there)
    with pytest.raises(NotFound):
        quarantine.move(f"{store.top}/none", f"{store.top}/q/none")
    assert quarantine.inspect([f"{store.top}/none", f"{store.top}/t"]) == [None, None]
    assert quarantine.names(f"{store.top}/none") == []
    assert quarantine.clock(f"{store.top}/q") is not None


def test_published_directories_have_the_permissions_of_those_that_they_replace(store: Store) -> None:
    permissions = store.permissions
    old, own = f"{store.top}/old", f"{store.top}/published"
    new = f"{own}/job/1/p=x"
    for location in (f"{old}/a", f"{new}/b"):
        store.storage.write_new(location, b"1")
    replacement = Replacement(directory=new, files=[f"{new}/b"], replaced=old, parent=store.top)
    assert permissions.store.has_permissions(old) is (store.kind != "s3")
    if store.kind == "s3":
        permissions.keep(own, [replacement])
        assert permissions.preview(own, old) is None
        assert store.names("/published") == ["job/1/p=x/b"]
        return
    before = permissions.store.read(old)
    acl = frozenset({AclEntry("user", "bin", 5), AclEntry("group", "", 4), AclEntry("user", "bin", 5, is_default=True)})
    acl |= {AclEntry(kind, "", bits, is_default=True) for kind, bits in (("user", 7), ("group", 5), ("mask", 5))}
    acl |= {AclEntry("other", "", 0, is_default=True)}
    permissions.store.set_access(old, replace(before, mode=0o1750, acl=acl))
    permissions.store.set_access(f"{old}/a", replace(before, mode=0o640))
    permissions.keep(own, [replacement])
    assert permissions.store.read(new) == permissions.store.read(old) == replace(before, mode=0o1750, acl=acl)
    assert permissions.store.read(f"{new}/b").mode == 0o640
    assert permissions.store.read(f"{own}/job").mode == 0o711
    preview = permissions.preview(own, old)
    assert preview is not None
    assert (preview.not_kept, preview.refused) == ((), None)
    assert permissions.store.read_files(own) == []
    permissions.store.set_access(new, replace(before, mode=0o700))
    assert permissions.store.read(new) == replace(before, mode=0o700)


def test_a_user_who_is_no_superuser_gives_readers_an_acl(
    hdfs: Store, cluster: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of lily, read by the group hive, is replaced by one of firn."""
    old, own = f"{hdfs.top}/old", f"{hdfs.top}/published"
    hdfs.storage.write_new(f"{old}/a", b"1")
    store = hdfs.permissions.store
    client, top = calls.connect(hdfs.top)
    for path, mode in ((f"{top}/old", 0o750), (f"{top}/old/a", 0o640)):
        client.set_owner(path, "lily", "hive")
        client.set_permission(path, mode)
    client.modify_acl_entries(f"{top}/old", [ClientEntry("user", "access", "r-x", "firn")])
    client.modify_acl_entries(f"{top}/old/a", [ClientEntry("user", "access", "r--", "firn")])
    client.mkdirs(f"{top}/published", create_parent=True)
    client.set_owner(f"{top}/published", "firn", "supergroup")
    monkeypatch.setenv("HADOOP_USER_NAME", "firn")
    new = f"{own}/job/1/p=x"
    hdfs.storage.write_new(f"{new}/b", b"1")
    preview = hdfs.permissions.preview(own, old)
    assert preview is not None
    assert preview.permissions == "lily:hive rwxr-x---+"
    assert preview.not_kept == (
        "the owner is firn instead of lily: an ACL entry gives the same access",
        "the group is supergroup instead of hive: an ACL entry gives the same access",
    )
    hdfs.permissions.keep(own, [Replacement(directory=new, files=[f"{new}/b"], replaced=old, parent=hdfs.top)])
    named = {AclEntry("user", "lily", 7), AclEntry("group", "hive", 5), AclEntry("group", "", 0)}
    assert store.read(new) == Permissions(owner="firn", group="supergroup", mode=0o770, acl=frozenset(named))
    readers = {"lily": True, "firn": True, "ann": False}
    for user, reads in readers.items():
        monkeypatch.setenv("HADOOP_USER_NAME", user)
        with nullcontext() if reads else pytest.raises(Denied, match=f"user={user}"):
            assert hdfs.storage.read(f"{new}/b") == b"1"
    monkeypatch.setenv("HADOOP_USER_NAME", "lily")
    with pytest.raises(Denied):
        store.read_files(own)


def test_a_colon_is_refused_by_its_name(hdfs: Store) -> None:
    with pytest.raises(Invalid, match=r"a:b"):
        hdfs.storage.write_new(f"{hdfs.top}/a:b", b"1")
    assert not hdfs.storage.exists(f"{hdfs.top}/a:b")


def test_a_directory_is_no_file(hdfs: Store) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/d/f", b"1")
    with pytest.raises(NotRegular):
        hdfs.storage.read(f"{hdfs.top}/d")
    with pytest.raises(Unavailable, match="is not a directory"):
        hdfs.storage.write_new(f"{hdfs.top}/d/f/x", b"1")


def test_a_file_in_progress_leaves_its_partition_unsettled(hdfs: Store) -> None:
    """Neither bytes nor the close move the directory's time."""
    location = f"{hdfs.top}/p"
    hdfs.storage.write_new(f"{location}/done", b"1")
    client, path = calls.connect(f"{location}/late")
    late = client.create(path)
    opened = hdfs.listings.list(location)
    late.write(b"1" * 1000)
    assert opened.is_being_written
    assert [file.path for file in opened.files] == ["done"]
    late.close()
    closed = hdfs.listings.list(location)
    assert closed.directory_mtime_ns == opened.directory_mtime_ns
    assert [file.path for file in closed.files] == ["done", "late"]
    assert closed.may_grow, "they are younger than a minute"


def test_the_full_blocks_of_an_open_file_are_no_file(hdfs: Store) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/done", b"1")
    client, path = calls.connect(f"{hdfs.top}/late")
    late = client.create(path, WriteOptions(block_size=1024))
    late.write(b"1" * 2500)
    assert files.get_status(f"{hdfs.top}/late").size == 2048
    listing = hdfs.listings.list(hdfs.top)
    assert ([file.path for file in listing.files], listing.is_being_written) == (["done"], True)
    late.close()
    assert hdfs.names() == ["done", "late"]


def test_a_writer_that_dies_leaves_nothing_that_hive_reads(hdfs: Store) -> None:
    HdfsWriter(f"{hdfs.top}/f").write(b"half")
    assert hdfs.names() == []
    assert not hdfs.storage.exists(f"{hdfs.top}/f")


def test_a_refused_user_is_named_with_path_and_mode(hdfs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    client, path = calls.connect(hdfs.top)
    client.set_permission(path, 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "lily")
    words = rf'Permission denied: user=lily, access=\w+, inode="{path}":\w+:supergroup:drwx------'
    with pytest.raises(Denied, match=rf"cannot write .*: {words}"):
        hdfs.storage.write_new(f"{hdfs.top}/g", b"1")
    with pytest.raises(Denied, match=words):
        hdfs.listings.list(hdfs.top)
    with pytest.raises(Denied, match=words):
        hdfs.storage.delete_directory(f"{hdfs.top}/d")
    with pytest.raises(Denied, match=words):
        hdfs.storage.read(f"{hdfs.top}/f")


def test_a_full_quota_names_its_directory(hdfs: Store, cluster: MiniCluster) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    path = hdfs.top.removeprefix(cluster.uri)
    cluster.administer("-setQuota", "2", path)
    with pytest.raises(Unavailable, match=rf"quota .*of directory {path} is exceeded: quota=2 file count=3") as refused:
        hdfs.storage.write_new(f"{hdfs.top}/g", b"1")
    assert "quota" in str(refused.value.hint)
    assert hdfs.names() == ["f"]


def test_the_check_finds_a_healthy_cluster_and_what_is_wrong(
    hdfs: Store, cluster: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_check, "SLOW_CLOSE_SECONDS", 60.0)  # a busy machine closes no file in time
    clusters, warehouse = HdfsFileSystems(Deadlines(30)), f"{hdfs.top}/data/warehouse"
    hdfs.storage.write_new(f"{warehouse}/f", b"1")
    findings = [*clusters.examine(warehouse)]
    assert [finding.hop for finding in findings if finding.severity is not Severity.OK] == []
    assert [finding.hop for finding in findings][2:] == [Hop.PERMISSION, Hop.SLOW_CLOSE, Hop.QUOTA, Hop.QUOTA]
    assert hdfs.names() == ["data/warehouse/f"]
    status = clusters.ping(warehouse)
    assert (status.address, status.error) == (cluster.uri, None)
    path = hdfs.top.removeprefix(cluster.uri)
    cluster.administer("-setQuota", "12", f"{path}/data/warehouse")
    cluster.administer("-setSpaceQuota", "1g", f"{path}/data/warehouse")
    assert [finding.message for finding in clusters.examine(warehouse)][-2] == "the quota has room"
    client, _ = calls.connect(warehouse)
    client.set_permission(f"{path}/data/warehouse", 0o755)
    monkeypatch.setenv("HADOOP_USER_NAME", "lily")
    denied = [*clusters.examine(warehouse)][-1]
    assert (denied.hop, denied.severity) == (Hop.PERMISSION, Severity.FAILED)
    assert f'user=lily, access=WRITE, inode="{path}/data/warehouse"' in denied.message


def test_safe_mode_is_waited_for_and_then_told(
    hdfs: Store, cluster: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/f", b"1")
    cluster.administer("-safemode", "enter")
    try:
        finding = [*HdfsFileSystems(Deadlines(30)).examine(hdfs.top)][-1]
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


def test_a_mount_point_ends_what_can_be_renamed(
    hdfs: Store, cluster: MiniCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = {"data": f"{hdfs.top}/d", "other": f"{hdfs.top}/o"}
    links = "".join(
        f"<property><name>fs.viewfs.mounttable.cl.link./{name}</name><value>{target}</value></property>"
        for name, target in mounts.items()
    )
    fallback = f"<property><name>fs.viewfs.mounttable.cl.linkFallback</name><value>{cluster.uri}/</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{links}{fallback}</configuration>", encoding="utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    view = Store("hdfs", "viewfs://cl/data", {})
    view.storage.write_new(f"{view.top}/t/x", b"rows")
    assert hdfs.storage.read(f"{hdfs.top}/d/t/x") == b"rows"
    assert view.names() == ["t/x"]
    assert view.quarantine.can_move(f"{view.top}/t/x", f"{view.top}/q")
    view.quarantine.move(f"{view.top}/t/x", f"{view.top}/q/x")
    assert view.names() == ["q/x"]
    assert not view.quarantine.can_move(f"{view.top}/q/x", "viewfs://cl/other/q")
    with pytest.raises(Invalid, match="Cannot rename across"):
        view.quarantine.move(f"{view.top}/q/x", "viewfs://cl/other/q/x")
