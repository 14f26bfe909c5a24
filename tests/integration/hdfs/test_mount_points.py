"""ViewFS: a mount point ends what can be renamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import Invalid
from tests.integration.hdfs import view
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.stores import Store


def test_a_mount_point_ends_what_can_be_renamed(
    hdfs: Store, cluster: MiniCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_service = hdfs.top.replace("127.0.0.1", "localhost")
    mounts = {"data": f"{hdfs.top}/d", "other": f"{hdfs.top}/o", "archive": f"{other_service}/a"}
    view.write_mounts(tmp_path, mounts, fallback=f"{cluster.uri}/")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    store = Store("hdfs", f"{view.URI}/data", {})
    store.storage.write_new(f"{store.top}/t/x", b"rows")
    assert hdfs.storage.read(f"{hdfs.top}/d/t/x") == b"rows"
    assert store.names() == ["t/x"]
    assert store.quarantine.can_move(f"{store.top}/t/x", f"{store.top}/q")
    store.quarantine.move(f"{store.top}/t/x", f"{store.top}/q/x")
    assert store.names() == ["q/x"]
    for mount in ("other", "archive"):
        assert not store.quarantine.can_move(f"{store.top}/q/x", f"{view.URI}/{mount}/q")
        with pytest.raises(Invalid, match="Cannot rename across") as refused:
            store.quarantine.move(f"{store.top}/q/x", f"{view.URI}/{mount}/q/x")
        assert "one mount point of one name service" in str(refused.value.hint)
    assert store.names() == ["q/x"]
