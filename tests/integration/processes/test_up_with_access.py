"""`firn up` with access control: one token for its owner, one for its optimizer, and none for anybody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import firn
from firn.embedded import kafka
from firn.errors import Unauthenticated
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.hive, pytest.mark.timeout(900)]
TOKEN = re.compile(r"firn_[0-9a-f]{12}_[0-9a-f]{64}")


@dataclass(frozen=True)
class Up:
    """A running `firn up`: where it answers, and what it has said on standard error so far."""

    url: str
    log: Path

    @property
    def tokens(self) -> list[str]:
        return TOKEN.findall(self.log.read_text(encoding="utf-8"))


@contextmanager
def firn_up(data_dir: Path, log: Path, *flags: str) -> Iterator[Up]:
    """Everything that it starts, until it has been told to stop and has."""
    command = [sys.executable, "-m", "firn.cli", "up", "--data-dir", str(data_dir), "--port", "0"]
    command += ["--master", "local[1]", "--memory", "700m", *flags]
    environment = {key: value for key, value in os.environ.items() if key != "FIRN_TOKEN"}
    environment |= {"FIRN_ACCESS__ENABLED": "true", "FIRN_BACKGROUND__PLAN_SECONDS": "3600"}
    with (
        log.open("w", encoding="utf-8") as err,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            yield Up(_url(process), log)
        finally:
            process.terminate()
            assert process.wait(120) == 0


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(r"http://[\d.:]+", line):
            return match.group()
    raise AssertionError("firn up ended before it answered")


def two_small_files(url: str, token: str) -> None:
    """A table with something to rewrite."""
    catalog = RestCatalog("lake", uri=f"{url}/iceberg", warehouse="lake", token=token)
    catalog.create_namespace("db")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = catalog.create_table("db.plain", rows.schema)
    table.append(rows)
    table.append(rows)


def test_the_owner_gets_a_token_once_and_the_optimizer_works_with_its_own(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with firn_up(data_dir, tmp_path / "first", "--json") as up:  # its JSON on standard output has no token
        (token,) = up.tokens
        with pytest.raises(Unauthenticated):
            firn.connect(up.url).catalogs.list()
        assert httpx.get(f"{up.url}/iceberg/v1/lake/namespaces").status_code == 401
        two_small_files(up.url, token)
        with firn.connect(up.url, token=token) as client:
            job = client.tables["db.plain"].start_job("rewrite")
            ended = client.jobs.wait(job.id, seconds=400)
            assert (ended.status, ended.error) == ("succeeded", None)
            assert client.tables["db.plain"].show().data_files == 1
    for log in data_dir.glob("*.log"):
        assert not TOKEN.search(log.read_text(encoding="utf-8", errors="replace")), log

    with_kafka = ("--kafka", "--kafka-port", "0")
    with firn_up(data_dir, tmp_path / "second", *with_kafka) as up, firn.connect(up.url, token=token) as client:
        assert up.tokens == []
        port = re.search(r"kafka +127\.0\.0\.1:(\d+)", up.log.read_text(encoding="utf-8"))
        assert port is not None
        assert kafka.does_answer(int(port.group(1)))
        wait_for(lambda: bool(client.optimizers()), "an optimizer", seconds=400)
        assert client.tables["db.plain"].show().records == 4
