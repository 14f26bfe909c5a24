"""What `/metrics` tells of a server that is one process; test_workers.py asks one of several."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from catalog.jobs.job import JobStatus
from catalog.jobs.optimizer_group import DEFAULT_GROUP
from catalog.launch.fleet import LaunchStatus
from catalog.launch.record import LaunchRecord
from catalog.launch.settings import LaunchId, LaunchKind
from firn.protocol.leases import PROTOCOL
from server.prometheus import build_exposition
from tests.server.api.client import Api


def samples(api: Api, name: str) -> dict[str, float]:
    """The lines of one metric: by their labels, as they are written."""
    answer = api.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    matches = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", answer.text, re.MULTILINE)
    assert len(dict(matches)) == len(matches)
    return {labels: float(value) for labels, value in matches}


def test_every_status_of_an_active_job_has_a_line(api: Api) -> None:
    """Those that have ended are counted within the last hour: all there ever were would take ever longer to count."""
    assert samples(api, "firn_jobs") == {f'status="{status}"': 0 for status in JobStatus if status.is_active}


def test_optimizers_are_counted_by_group_until_they_leave(api: Api) -> None:
    ids = []
    for group in ("default", "default", "night"):
        optimizer = {"group": group, "host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL}
        ids.append(api.http.post("/api/v1/optimizers", json=optimizer).json()["id"])
    assert samples(api, "firn_optimizers") == {'group="default"': 2, 'group="night"': 1}
    api.http.delete(f"/api/v1/optimizers/{ids[2]}")
    assert samples(api, "firn_optimizers") == {'group="default"': 2}


def test_launches_are_counted_by_group_and_by_where_they_stand(administered: Api) -> None:
    assert samples(administered, "firn_launches") == {}
    launch = {"kind": "local", "scaling": {"minimum": 2, "maximum": 2}}
    assert administered.http.put("/api/v1/groups/default/launch", json=launch).status_code == 200
    states = {"wanted": 2, "failed": 0, "starting": 0, "working": 0, "draining": 0}
    assert samples(administered, "firn_launches") == {
        f'group="default",state="{state}"': states[state] for state in states
    }
    with administered.lake.services.database.writing() as uow:
        now = uow.now()
        for number, status in enumerate((LaunchStatus.WORKING, LaunchStatus.FAILED, LaunchStatus.FAILED)):
            launched = LaunchRecord(
                id=LaunchId(f"default-{number}"),
                group=DEFAULT_GROUP,
                kind=LaunchKind.LOCAL,
                status=status,
                started_at=now + timedelta(seconds=number),
                busy_at=now,
            )
            uow.launches.put(launched)
    launches = samples(administered, "firn_launches")
    assert (launches['group="default",state="working"'], launches['group="default",state="failed"']) == (1, 2)
    assert administered.http.get("/api/v1/groups").json()[0]["working"] == 1


def test_requests_are_counted_by_what_was_answered(api: Api) -> None:
    missing = 'area="api",method="GET",status="404"'
    before = samples(api, "firn_requests_total").get(missing, 0)
    for _ in range(3):
        assert api.http.get("/api/v1/nothing/here").status_code == 404
    assert samples(api, "firn_requests_total")[missing] == before + 3
    assert samples(api, "firn_request_seconds_count")['area="api",method="GET"'] >= 3


def test_a_worker_that_is_just_starting_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    (tmp_path / "counter_1.db").touch()
    assert b'firn_jobs{status="pending"} 3.0' in build_exposition({"pending": 3}, {})


def test_every_metric_is_on_the_operators_page(api: Api) -> None:
    """Dashboard and alerts are written after that page."""
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text("utf-8")
    metric_names = set(re.findall(r"^# HELP (firn_\w+)", api.http.get("/metrics").text, re.MULTILINE))
    # Of counters and histograms the library also says since when they count.
    metric_names = {name for name in metric_names if not name.endswith("_created")}
    assert metric_names == set(re.findall(r"`(firn_[a-z_]+)(?:\{[^}]*\})?`", page))
