"""`firn table remove-orphans`, `quarantine`, `restore-files` and `firn job deleted`."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import firn
from firn.protocol.leases import Outcome, Result
from optimizer.client import connect
from tests.command_line import Command

NUMBERS = count()


@pytest.fixture
def table(client: firn.Client) -> str:
    name = f"orphaned.t{next(NUMBERS)}"
    client.tables.create(name, [{"name": "id", "type": "long"}])
    return name


def stray(client: firn.Client, table: str, name: str) -> Path:
    """An old file at the table's place that nothing refers to."""
    path = Path(client.tables[table].show().location.removeprefix("file://")) / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"some rows")
    os.utime(path, (time.time() - 1_000_000,) * 2)
    return path


def work(url: str, *paths: Path) -> None:
    """What an optimizer does with the job that waits."""
    api = connect(url)
    me = api.register(group="default", host="here", pid=1, version="0", facts={}).id
    lease = api.take_lease(me, ["remove-orphans"], wait_seconds=5)
    assert lease is not None
    api.ask(lease, "orphans/overdue", {}, seconds=30)
    batch: dict[str, Any] = api.ask(lease, "orphans", {"files": [str(path) for path in paths]}, seconds=30)
    result = {"orphan_files": len(batch["quarantined"]), "orphans": [orphan["path"] for orphan in batch["quarantined"]]}
    api.report(lease, Result(outcome=Outcome.NOTHING, result=result), [])
    api.unregister(me)


def test_orphans_are_set_aside_listed_and_put_back(run: Command, client: firn.Client, table: str) -> None:
    orphan, other = stray(client, table, "one.parquet"), stray(client, table, "other.parquet")
    output = run("table", "remove-orphans", table, "--no-wait", "--json")
    assert output.code == 0, output.err
    work(run.url, orphan, other)
    assert not orphan.exists()
    listed = run("table", "quarantine", table)
    assert all(text in listed.out for text in (str(orphan), str(other), "aside", "after "))
    assert str(orphan) in run("job", "deleted", output.json["id"]).out
    assert run("table", "restore-files", table, str(orphan)).out == "restored 1 file\n"
    assert (orphan.read_bytes(), other.exists()) == (b"some rows", False)
    assert run("table", "restore-files", table, "--job", output.json["id"], "--json").json == {"restored": [str(other)]}
    states = {file["state"] for file in run("job", "deleted", output.json["id"], "--json").json[0]["files"]}
    assert states == {"put back"}


def test_a_dry_run_names_the_files_and_moves_none(run: Command, client: firn.Client, table: str) -> None:
    path = stray(client, table, "one.parquet")
    job = run("table", "remove-orphans", table, "--dry-run", "--no-wait", "--json").json
    assert job["params"]["dry_run"] is True
    work(run.url, path)
    assert path.exists()
    assert run("table", "quarantine", table).out == f"{table} has no quarantined files\n"
    assert run("job", "deleted", job["id"]).out == "this job has quarantined or deleted no files\n"


def test_what_is_not_aside_cannot_be_put_back(run: Command, table: str) -> None:
    output = run("table", "restore-files", table, "/nowhere/x.parquet")
    assert (output.code, "none of these files is quarantined" in output.err) == (1, True)
    both = run("table", "restore-files", table, "/x", "--job", str(uuid4()))
    assert (both.code, "give one of them" in both.err) == (2, True)
