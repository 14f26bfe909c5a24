"""An import whose server is killed goes on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

import firn
from firn.protocol.imports import ImportOptions
from tests.command_line import serving
from tests.server.service.imports.importing import Elsewhere

MANY = 100


def test_an_import_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path / "w")
    for number in range(MANY):
        elsewhere.table(f"n{number % 3}/t{number}")
    with serving(tmp_path / "data") as (url, process):
        client = firn.connect(url)
        options = ImportOptions(allow_locations=[elsewhere.uri])
        operation = client.imports.start("lake", "warehouse", elsewhere.uri, options)
        while client.operations.get(operation.id).done < 20:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        client.close()
    with serving(tmp_path / "data") as (url, _):
        with firn.connect(url) as client:
            ended = client.operations.wait(operation.id, seconds=120)
            assert (ended.status, ended.done) == ("succeeded", MANY)
            assert ended.result["counts"] == {"registered": MANY}
        catalog = RestCatalog("lake", uri=f"{url}/iceberg", warehouse="lake")
        assert sum(len(catalog.list_tables(f"n{number}")) for number in range(3)) == MANY
        with pytest.raises(NoSuchTableError):
            catalog.load_table("n0.t1")
