"""The settings of `[hadoop]`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from server.hadoop import apply_settings
from server.settings import load_settings


def test_a_directory_without_the_clusters_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would ignore it and call another name node, or none."""
    monkeypatch.setenv("FIRN_HADOOP__CONF_DIR", str(tmp_path))
    with pytest.raises(ValidationError, match=r"neither core-site\.xml nor hdfs-site\.xml"):
        load_settings(None)
    (tmp_path / "core-site.xml").write_text("<configuration><prop", encoding="utf-8")
    with pytest.raises(ValidationError, match=r"core-site\.xml is no XML file"):
        load_settings(None)
    (tmp_path / "core-site.xml").write_text("<configuration/>", encoding="utf-8")
    assert load_settings(None).hadoop.conf_dir == tmp_path


def test_the_client_finds_the_settings_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    monkeypatch.setenv("HADOOP_USER_NAME", "hive")
    apply_settings(None, None)
    assert (os.environ["HADOOP_CONF_DIR"], os.environ["HADOOP_USER_NAME"]) == ("/etc/hadoop/conf", "hive")
    apply_settings(tmp_path, "firn")
    assert (os.environ["HADOOP_CONF_DIR"], os.environ["HADOOP_USER_NAME"]) == (str(tmp_path), "firn")
