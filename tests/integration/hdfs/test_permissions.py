"""Owner, group, mode and ACL: of published directories, and of a user whom HDFS refuses."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from hdfs_native import AclEntry as ClientEntry

from catalog.errors import Denied
from catalog.files.permissions import AclEntry, Permissions
from firn.hdfs import calls
from server.service.hive.published_permissions import Replacement
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.stores import Store


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
