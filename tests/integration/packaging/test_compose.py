"""deploy/compose: its containers, started as processes in its order, make a Firn that works."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.command_line import a_free_port
from tests.integration.packaging.containers import DOCKERFILE, REPOSITORY, of_compose, replaced

FILE = (REPOSITORY / "deploy" / "compose" / "compose.yaml").read_text("utf-8")
SERVICES = yaml.safe_load(FILE)["services"]
TOKEN = re.compile(r"firn_[0-9a-f]{12}_[0-9a-f]{64}")


def wait_for(look: Callable[[], Any], log: Path, seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            answer = look()
        except httpx.TransportError:
            answer = None
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8"))


@pytest.mark.hive
def test_all_of_it_starts_and_knows_each_other(postgres_url: str, tmp_path: Path) -> None:
    port = str(a_free_port())
    directories = {path: tmp_path / path.rpartition("/")[2] for path in ("/metastore", "/warehouse", "/run/firn")}
    for directory in directories.values():
        directory.mkdir()
    database = {"postgresql+psycopg://firn:${FIRN_DATABASE_PASSWORD:-firn}@database/firn": postgres_url}
    paths = {path: str(directory) for path, directory in directories.items()}
    file = replaced(FILE, {**database, **paths, "9083": str(a_free_port()), "8630": port})
    dockerfile = replaced(DOCKERFILE, {"FIRN_DATA_DIR=/data": f"FIRN_DATA_DIR={tmp_path / 'data'}", "8630": port})
    containers = of_compose(file, dockerfile)
    with containers["metastore"].running(), containers["server"].running() as log:
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}")
        wait_for(lambda: http.get("/readyz").is_success, log)
        http.headers["Authorization"] = f"Bearer {TOKEN.findall(log.read_text('utf-8'))[0]}"
        containers["token"].run()
        token = directories["/run/firn"] / "token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        with containers["optimizer"].running() as optimizer_said:
            optimizers = wait_for(lambda: http.get("/api/v1/optimizers").json(), optimizer_said)
        offered = [(each["group"], each["facts"]["sql"], each["facts"]["streams"]) for each in optimizers]
        assert offered == [("default", 2, 4)]
        # It answers once the metastore does.
        wait_for(lambda: http.post("/api/v1/catalogs/lake/hive/refresh", json={}).is_success, log)


def test_only_the_server_knows_the_database() -> None:
    knowing = {name for name, service in SERVICES.items() if "FIRN_DATABASE_URL" in service.get("environment", {})}
    assert knowing == {"server", "token"}


@pytest.mark.parametrize("name", ["server", "token", "metastore", "optimizer"])
def test_containers_cannot_write_to_their_image_or_become_root(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_only_this_machine_reaches_the_server() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
