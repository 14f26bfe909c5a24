"""Python works on HDFS as the user of Spark's Java, and with its tokens."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from optimizer import hadoop_identity
from optimizer.hadoop_identity import list_names, share_identity

HDFS = "HDFS_DELEGATION_TOKEN"


@dataclass
class FakeToken:
    kind: str
    service: str

    def getKind(self) -> str:  # noqa: N802 -- Java's name, as those below
        return self.kind

    def getService(self) -> str:  # noqa: N802
        return self.service

    def setService(self, service: str) -> None:  # noqa: N802
        self.service = service

    def copyToken(self) -> FakeToken:  # noqa: N802
        return FakeToken(self.kind, self.service)


@dataclass
class FakeCredentials:
    tokens: list[FakeToken] = field(default_factory=list)

    def getAllTokens(self) -> Any:  # noqa: N802
        left = list(self.tokens)
        iterator = SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop(0))
        return SimpleNamespace(iterator=lambda: iterator)

    def addToken(self, _alias: str, token: FakeToken) -> None:  # noqa: N802
        self.tokens.append(token)

    def numberOfTokens(self) -> int:  # noqa: N802
        return len(self.tokens)

    def writeTokenStorageToStream(self, buffer: bytearray) -> None:  # noqa: N802
        buffer += " ".join(token.service for token in self.tokens).encode()


class Buffer(bytearray):
    def toByteArray(self) -> bytes:  # noqa: N802
        return bytes(self)


@dataclass
class FakeSpark:
    """Java's side of a driver: the user `etl` with these tokens."""

    tokens: list[FakeToken] = field(default_factory=list)
    is_secure: bool = True

    @property
    def _jvm(self) -> Any:
        user = SimpleNamespace(
            getShortUserName=lambda: "etl", getCredentials=lambda: FakeCredentials(list(self.tokens))
        )
        users = SimpleNamespace(isSecurityEnabled=lambda: self.is_secure, getCurrentUser=lambda: user)
        security = SimpleNamespace(UserGroupInformation=users, Credentials=FakeCredentials)
        hadoop = SimpleNamespace(security=security, io=SimpleNamespace(Text=str))
        java_io = SimpleNamespace(ByteArrayOutputStream=Buffer, DataOutputStream=lambda buffer: buffer)
        return SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)), java=SimpleNamespace(io=java_io)
        )

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        return SimpleNamespace(getConf=dict)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody has named a cluster, and what a test sets goes with it."""
    monkeypatch.chdir(tmp_path)
    for name in ("HADOOP_CONF_DIR", "HADOOP_USER_NAME", "HADOOP_TOKEN_FILE_LOCATION"):
        monkeypatch.setenv(name, "x")
        del os.environ[name]


def list_variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith("HADOOP_")}


def test_without_kerberos_python_is_the_user_of_java() -> None:
    with share_identity(FakeSpark(is_secure=False)):  # type: ignore[arg-type]
        assert list_variables() == {"HADOOP_USER_NAME": "etl"}


def test_tokens_of_hdfs_lie_in_a_file_of_this_user_alone() -> None:
    spark = FakeSpark([FakeToken(HDFS, "ha-hdfs:prod"), FakeToken("RM_DELEGATION_TOKEN", "10.0.0.1:8032")])
    with share_identity(spark):  # type: ignore[arg-type]
        file = Path(os.environ["HADOOP_TOKEN_FILE_LOCATION"])
        assert file.read_bytes() == b"ha-hdfs:prod"
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
    assert not file.exists()


def test_without_tokens_python_keeps_the_tickets_of_the_environment() -> None:
    with share_identity(FakeSpark()):  # type: ignore[arg-type]
        assert list_variables() == {}


def test_renewed_tokens_replace_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop_identity, "REFRESH_SECONDS", 0.01)
    spark = FakeSpark([FakeToken(HDFS, "ha-hdfs:prod")])
    with share_identity(spark):  # type: ignore[arg-type]
        spark.tokens = [FakeToken(HDFS, "ha-hdfs:renewed")]
        waiting, file = threading.Event(), Path(os.environ["HADOOP_TOKEN_FILE_LOCATION"])
        while file.read_bytes() != b"ha-hdfs:renewed":
            waiting.wait(0.01)


def test_files_that_spark_sends_are_the_clusters_if_the_node_has_none(tmp_path: Path) -> None:
    sent = tmp_path / "__spark_conf__" / "__hadoop_conf__"
    sent.mkdir(parents=True)
    with share_identity(FakeSpark(is_secure=False)):  # type: ignore[arg-type]
        assert os.environ["HADOOP_CONF_DIR"] == str(sent)
    os.environ["HADOOP_CONF_DIR"] = "/etc/hadoop/conf"
    with share_identity(FakeSpark(is_secure=False)):  # type: ignore[arg-type]
        assert os.environ["HADOOP_CONF_DIR"] == "/etc/hadoop/conf"


def test_a_token_has_the_names_of_its_name_node() -> None:
    properties = {
        "fs.defaultFS": "hdfs://localhost:8020",
        "dfs.namenode.rpc-address.prod.a": "localhost:9000",
        "dfs.namenode.rpc-address": "nowhere.invalid:8020",
    }
    assert list_names("127.0.0.1:8020", properties, []) == ["localhost:8020"]
    assert list_names("127.0.0.1:9000", properties, [""]) == ["localhost:9000"]
    assert list_names("127.0.0.1:8021", properties, ["hdfs://localhost:8021"]) == ["localhost:8021"]
    assert list_names("127.0.0.1:8020", {"fs.defaultFS": "hdfs://127.0.0.1:8020"}, []) == []
    mounts = {"fs.viewfs.mounttable.cl.link./data": "hdfs://localhost:8022/d"}
    assert list_names("127.0.0.1:8022", mounts, []) == ["localhost:8022"], "Python's client calls what is behind them"
    assert list_names("ha-hdfs:prod", properties, ["hdfs://prod"]) == []
