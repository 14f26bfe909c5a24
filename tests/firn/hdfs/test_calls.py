"""Which client calls, and how long a call waits for a name node that is busy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firn.hdfs import calls
from firn.hdfs.calls import call, connect
from firn.hdfs.errors import NameNodeBusy

SAFE_MODE = (
    'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode.\\n\\tat x")'
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def refusing(times: int) -> Callable[[], str]:
    left = [RuntimeError(SAFE_MODE)] * times

    def answer() -> str:
        if left:
            raise left.pop()
        return "done"

    return answer


def test_a_busy_name_node_is_asked_again() -> None:
    clock = Clock()
    assert call(refusing(3), clock=lambda: clock.now, sleep=clock.sleep) == "done"
    assert clock.pauses == [0.1, 0.2, 0.4]


def test_after_five_seconds_the_call_fails_in_its_words() -> None:
    clock = Clock()
    with pytest.raises(NameNodeBusy, match=r"Name node is in safe mode\.$"):
        call(refusing(100), clock=lambda: clock.now, sleep=clock.sleep)
    assert 4 < clock.now <= calls.RETRY_SECONDS


def test_other_refusals_are_final() -> None:
    def missing() -> None:
        raise FileNotFoundError("/x")

    with pytest.raises(FileNotFoundError):
        call(missing, sleep=lambda _: pytest.fail("nobody waits for a missing file"))
    with pytest.raises(TypeError):
        call(lambda: len(1))  # type: ignore[arg-type]


def test_each_file_system_and_user_has_one_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clients: list[tuple[str, Path | None]] = []

    def make(root: str, conf_dir: Path | None) -> object:
        clients.append((root, conf_dir))
        return object()

    monkeypatch.setattr(calls, "make_client", make)
    monkeypatch.setattr(calls, "_clients", {})
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    first, path = connect("hdfs://nn:8020/a/b%3A#?c")
    assert path == "/a/b%3A#?c"
    assert connect("hdfs://nn:8020/z")[0] is first
    monkeypatch.setenv("HADOOP_USER_NAME", "lily")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert connect("hdfs://nn:8020/z")[0] is not first
    mount = "<property><name>fs.viewfs.mounttable.cl.link./m</name><value>hdfs://ns/d</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{mount}</configuration>", encoding="utf-8")
    assert connect("viewfs://cl/m/z")[1] == "/d/z"
    assert clients == [("hdfs://nn:8020", None), ("hdfs://nn:8020", tmp_path), ("hdfs://ns", tmp_path)]


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hdfs_native", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'firn\[hdfs\]'"):
        calls.make_client("hdfs://nn", None)
