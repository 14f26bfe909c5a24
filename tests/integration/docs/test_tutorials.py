"""The tutorials of docs/tutorials/: every step of each shows what the page says. They share one `firn up --kafka`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.embedded.ports import LOOPBACK
from firn.local import LocalFirn
from tests.command_line import Command
from tests.docs.blocks import ADDRESS
from tests.hive_engine import HiveEngine
from tests.integration.docs.tutorial_pages import TUTORIALS, Reader, find_missing

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def hive(local: LocalFirn) -> Iterator[HiveEngine]:
    """Spark as Hive's user has it, on the metastore of `firn up`."""
    engine = HiveEngine(local.metastore.uri, local.metastore.warehouse.parent)
    yield engine
    engine.close()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_step_of_a_tutorial_shows_what_its_page_says(
    local: LocalFirn, page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    addresses = {ADDRESS: local.url, "127.0.0.1:9092": f"{LOOPBACK}:{local.kafka_port}"}
    Reader(Command(local.url), addresses, lambda: request.getfixturevalue("hive")).follow(page)


@pytest.mark.parametrize(
    ("shown", "is_missing"),
    [
        ("a  1\nb 2", False),
        ("…\nb 2", False),
        ("a … c", True),
        ("a …", False),
        ("b 2\na 1", True),
        ("a 1 2", True),
    ],
)
def test_a_line_that_was_not_printed_is_noticed(shown: str, is_missing: bool) -> None:  # noqa: FBT001
    assert (find_missing(shown, "a   1\n───\nb   2  \n") is not None) is is_missing
