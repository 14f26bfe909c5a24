"""ViewFS: a mount point ends what can be renamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import Invalid
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.stores import Store


def test_a_mount_point_ends_what_can_be_renamed(
    hdfs: Store, cluster: MiniCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_service = hdfs.top.replace("127.0.0.1", "localhost")
    mounts = {"data": f"{hdfs.top}/d", "other": f"{hdfs.top}/o", "archive": f"{other_service}/a"}
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
    for mount in ("other", "archive"):
        assert not view.quarantine.can_move(f"{view.top}/q/x", f"viewfs://cl/{mount}/q")
        with pytest.raises(Invalid, match="Cannot rename across") as refused:
            view.quarantine.move(f"{view.top}/q/x", f"viewfs://cl/{mount}/q/x")
        assert "one mount point of one name service" in str(refused.value.hint)
    assert view.names() == ["q/x"]
