"""Where a process finds its access token."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.client import connect
from firn.errors import Invalid
from firn.token_source import read_token


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRN_TOKEN", raising=False)
    monkeypatch.delenv("FIRN_TOKEN_FILE", raising=False)


def test_without_either_there_is_none() -> None:
    assert read_token() is None


def test_a_file_gives_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("firn_one\n", "utf-8")
    monkeypatch.setenv("FIRN_TOKEN_FILE", str(tmp_path / "token"))
    assert read_token() == "firn_one"
    assert connect("http://127.0.0.1:9").token == "firn_one"


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_TOKEN_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("FIRN_TOKEN", "firn_two")
    assert read_token() == "firn_two"


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"", "empty"), (b"\xff\xfe", "not text")], ids=str
)
def test_a_file_without_a_token_is_refused_by_name(
    content: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("FIRN_TOKEN_FILE", str(path))
    with pytest.raises(Invalid, match=f"{path.name}.*{reason}"):
        read_token()
