from __future__ import annotations

from pathlib import Path

import pytest

from firn.embedded.errors import JarsUnavailable
from firn.spark import jars


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_before_it_was_fetched_spark_is_told_the_coordinate(empty_cache: Path) -> None:
    conf = jars.spark_conf()
    assert conf["spark.jars.packages"] == "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
    assert Path(conf["spark.jars.ivySettings"]).is_file()
    assert Path(conf["spark.jars.ivy"]).is_relative_to(empty_cache)


def test_it_is_fetched_although_the_local_maven_repository_holds_its_pom_without_its_jar(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, artifact, version = jars.ICEBERG_RUNTIME
    half = tmp_path / "home" / ".m2" / "repository" / group.replace(".", "/") / artifact / version
    half.mkdir(parents=True)
    (half / f"{artifact}-{version}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
        f"<artifactId>{artifact}</artifactId><version>{version}</version></project>",
        encoding="utf-8",
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path / 'home'}")

    jar = jars.fetch()

    assert jar.is_relative_to(empty_cache)
    assert jar.stat().st_size > 10_000_000
    assert jars.spark_conf() == {"spark.jars": str(jar)}


def test_without_a_network_it_says_so_and_leaves_nothing(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "127.0.0.1"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dhttps.proxyHost={nowhere} -Dhttps.proxyPort=9")
    with pytest.raises(JarsUnavailable, match="Is Maven Central reachable"):
        jars.fetch()
    assert "spark.jars" not in jars.spark_conf()
    assert list((empty_cache / "firn" / "jars").iterdir()) == []
