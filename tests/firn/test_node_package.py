"""The package for the nodes of a cluster: what is in it, what is not, and what it does not overwrite."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from firn import node_package
from firn.node_package import PackageRefused, write_package
from tests.command_line import Command

SMALL = ("httpx", "typing-extensions")
START = """
import sys
inside = {*sys.argv[1:], *sys.stdlib_module_names}
class Node:
    def find_spec(self, name, path=None, target=None):
        if path is None and name not in inside and not name.startswith("_"):
            raise ModuleNotFoundError(f"the archive has no {name}", name=name)
sys.meta_path.insert(0, Node())
import optimizer.__main__
from optimizer.jobs import JOBS
assert JOBS
"""
"""Starts an optimizer on a node that has no other packages than those which the arguments name."""
OFFLINE = Command("http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Few distributions, as the large ones take a quarter of a minute, and a runtime that is no download."""
    jar = tmp_path / "cache" / "iceberg-1.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"jar")
    monkeypatch.setattr(node_package, "DISTRIBUTIONS", SMALL)
    monkeypatch.setattr(node_package, "fetch", lambda: jar)


def test_a_bare_python_imports_firn_and_its_packages_from_the_archive(tmp_path: Path) -> None:
    written = write_package(tmp_path / "firn.zip")
    assert written.jars == (tmp_path / "iceberg-1.jar",)
    assert written.jars[0].read_bytes() == b"jar"
    assert {"httpx", "httpcore", "idna"} <= set(written.distributions)
    with zipfile.ZipFile(written.archive) as archive:
        archive.extractall(tmp_path / "node")
    program = "import httpx, firn, catalog.files.change_packing as c; print(c.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "node")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path / "node"))


def test_the_archive_has_neither_tests_nor_paths_of_this_machine(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_package(tmp_path / "firn.zip").archive) as archive:
        names = archive.namelist()
        assert "optimizer/__main__.py" in names
        assert "firn/spark/ivysettings.xml" in names
        assert any(name.startswith("firn-") and name.endswith("/METADATA") for name in names)
        assert not [name for name in names if name.startswith(("/", "pyspark/", "server/", "tests/")) or ".." in name]
        assert not [name for name in names if name.endswith((".pyc", ".pth", "direct_url.json", "/RECORD"))]
    again = write_package(tmp_path / "again.zip")
    assert again.archive.read_bytes() == (tmp_path / "firn.zip").read_bytes()


def test_every_package_that_an_optimizer_imports_is_in_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing shows only on a cluster."""
    monkeypatch.undo()
    names = {name.partition("/")[0] for name, _ in node_package._list_members()}
    inside = {name.removesuffix(".py").partition(".")[0] for name in names}
    imported: set[str] = set()
    for package in ("optimizer", "firn/protocol", "firn/spark", "firn/hdfs", "firn/pipelines", "firn/scan"):
        for path in Path(package).rglob("*.py"):
            if path.parent == Path("optimizer/queries"):  # a process of the server, which no node runs
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    imported.add((node.module or "").partition(".")[0])
    wanted = imported - set(sys.stdlib_module_names) - {"pyspark", "py4j"}
    assert wanted - inside == set()


def test_an_optimizer_starts_with_what_is_in_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports all jobs when it starts, and with them modules of Firn that the test above does not read."""
    monkeypatch.undo()
    names = {name.partition("/")[0] for name, _ in node_package._list_members()}
    inside = sorted({name.removesuffix(".py").partition(".")[0] for name in names} | {"pyspark", "py4j"})
    done = subprocess.run([sys.executable, "-c", START, *inside], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_exists_is_overwritten_only_when_that_is_wanted(tmp_path: Path) -> None:
    output = tmp_path / "firn.zip"
    output.write_bytes(b"mine")
    with pytest.raises(PackageRefused, match=r"firn\.zip exists already\. Add --force"):
        write_package(output)
    assert output.read_bytes() == b"mine"
    write_package(output, overwrite=True)
    assert zipfile.is_zipfile(output)
    other = tmp_path / "iceberg-1.jar"
    other.write_bytes(b"another file")
    with pytest.raises(PackageRefused, match=r"iceberg-1\.jar exists already"):
        write_package(tmp_path / "other.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "firn.zip", "iceberg-1.jar"]


def test_the_runtime_of_an_earlier_package_is_in_nobodys_way(tmp_path: Path) -> None:
    first = write_package(tmp_path / "a.zip").archive.read_bytes()
    assert write_package(tmp_path / "b.zip").archive.read_bytes() == first


def test_a_name_that_spark_does_not_unpack_and_a_missing_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageRefused, match=r"does not end with \.zip"):
        write_package(tmp_path / "firn.whl")
    with pytest.raises(PackageRefused, match="is no directory"):
        write_package(tmp_path / "nowhere" / "firn.zip")


def test_a_missing_distribution_is_named_with_who_needs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node_package, "DISTRIBUTIONS", (*SMALL, "no-such-package"))
    with pytest.raises(PackageRefused, match="Firn needs no-such-package, which is not installed"):
        write_package(tmp_path / "firn.zip")
    assert not (tmp_path / "firn.zip").exists()


def test_the_command_prints_sizes_and_the_commands_that_follow(tmp_path: Path) -> None:
    output = tmp_path / "my firn.zip"
    printed = OFFLINE("optimizer", "package", "-o", str(output), "--upload-to", "hdfs://prod/apps/")
    assert printed.code == 0, printed.err
    assert f"hdfs dfs -put -f '{output}' {tmp_path}/iceberg-1.jar hdfs://prod/apps\n" in printed.out
    assert "--set jars=hdfs://prod/apps/iceberg-1.jar" in printed.out
    refused = OFFLINE("optimizer", "package", "-o", str(output))
    assert (refused.code, "--force" in refused.err) == (1, True)
    document = OFFLINE("optimizer", "package", "-o", str(output), "--force", "--json").json
    assert document["archive_bytes"] == output.stat().st_size
    assert document["launch"]["jars"] == "hdfs:///apps/firn/iceberg-1.jar"
    assert document["upload"][0] == "hdfs dfs -mkdir -p hdfs:///apps/firn"
