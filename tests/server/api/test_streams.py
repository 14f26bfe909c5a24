"""Streams over HTTP, with clusters in memory: leases, pauses, stops, back-off, lag."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from catalog.errors import WriterFenced
from catalog.jobs.stream import StreamId
from catalog.names import TableName
from firn.protocol.leases import PROTOCOL
from server.service.services import Services
from tests.databases import OpenDatabase
from tests.server.asgi import Client, client_of
from tests.server.clocks import HOUR, Clock, clock
from tests.server.default_settings import settings_in
from tests.server.kafka.fake import FakeClusters
from tests.server.lake import CHANGE, Lake, a_lake, appended

__all__ = ["clock"]
AT, TABLES = "/api/v1/streams", "/api/v1/catalogs/lake/tables"
LOG = {"firn.log.topic": "orders", "firn.log.brokers": "kafka:9092", "firn.log.format": "firn-json"}
COLUMNS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]


@dataclass
class Site:
    """A server with a cluster in memory, as optimizers and people see it."""

    http: Client
    lake: Lake
    services: Services
    clusters: FakeClusters

    def create(self, name: str = "db.orders", **properties: str) -> Any:
        body = {"name": name, "columns": COLUMNS, "primary_key": ["id"], "properties": {**LOG, **properties}}
        return self.ok("POST", TABLES, body)

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def register(self, group: str = "default") -> str:
        about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "group": group}
        return str(self.ok("POST", "/api/v1/optimizers", about)["id"])

    def take(self, optimizer: str) -> Any:
        return self.ok("POST", "/api/v1/stream-leases", {"optimizer_id": optimizer, "wait_seconds": 0})

    def beat(self, lease: Any, **measured: Any) -> httpx.Response:
        return self.http.request("PUT", f"/api/v1/stream-leases/{lease['lease']}", json=measured)

    def report(self, lease: Any, outcome: str, **more: Any) -> httpx.Response:
        return self.http.post(f"/api/v1/stream-leases/{lease['lease']}/report", json={"outcome": outcome, **more})

    def drain(self, lease: Any, start: str, end: str) -> None:
        """A commit of the copy that has the lease."""
        summary = {"firn.writer-id": lease["writer"], "firn.writer-epoch": str(lease["writer_epoch"])}
        summary |= {"firn.position-from": start, "firn.position": end}
        self.lake.commit(appended(CHANGE, self.lake.metadata(CHANGE), summary=summary))

    def stream(self, table: str = "db.orders") -> Any:
        (stream,) = self.ok("GET", f"{AT}?table={table}")["items"]
        return stream

    def count_fenced_commits(self) -> float:
        line = re.search(
            r'^firn_fenced_commits_total\{catalog="lake",table="db\.orders"\} (\S+)$',
            self.http.get("/metrics").text,
            re.MULTILINE,
        )
        return 0.0 if line is None else float(line[1])

    def act(self, verb: str) -> httpx.Response:
        return self.http.post(f"{AT}/{self.stream()['id']}/{verb}")

    def log(self) -> list[str]:
        return [line["line"] for line in self.ok("GET", f"{AT}/{self.stream()['id']}/logs")]


@pytest.fixture
def site(opened_sqlite: OpenDatabase, tmp_path: Path) -> Site:
    lake, clusters = a_lake(opened_sqlite.database, tmp_path), FakeClusters()
    clusters.create("orders", 2)
    own = lake.services
    connections = replace(own.connections, clusters=clusters)
    log_stores = replace(own.log_stores, connections=connections)
    services = replace(
        own,
        connections=connections,
        log_stores=log_stores,
        streams=replace(own.streams, log_stores=log_stores),
        stream_leases=replace(own.stream_leases, connections=connections),
    )
    http = client_of(services, settings_in(tmp_path / "data"))
    return Site(http, lake, services, clusters)


def test_a_keyed_table_with_a_log_has_a_stream(site: Site) -> None:
    site.create()
    site.lake.create_keyed(TableName(("db",), "without"))
    (listed,) = site.ok("GET", AT)["items"]
    assert (listed["table"], listed["kind"], listed["status"]) == ("db.orders", "drain", "waiting")
    assert (listed["topic"], listed["max_lag_seconds"], listed["lag_rows"]) == ("orders", 30, None)
    assert listed["allowed_actions"] == ["pause", "restart"]
    assert site.ok("GET", f"{AT}?status=running")["items"] == []
    assert site.ok("GET", f"{AT}/{listed['id']}")["table"] == "db.orders"


def test_a_lease_registers_the_optimizer_as_the_writer_of_the_log(site: Site) -> None:
    site.create()
    first = site.take(site.register())
    assert (first["table"], first["writer"], first["writer_epoch"], first["position"]) == ("db.orders", "log", 1, None)
    assert site.take(site.register()) is None
    site.drain(first, "none", "orders:0:2,1:0")
    running = site.stream()
    assert (running["status"], running["position"]) == ("running", "orders:0:2,1:0")
    assert running["last_commit_at"] is not None
    assert site.report(first, "handed-back").status_code == 204
    second = site.take(site.register())
    assert (second["writer_epoch"], second["position"], second["attempt"]) == (2, "orders:0:2,1:0", 2)
    fenced = site.count_fenced_commits()
    with pytest.raises(WriterFenced):
        site.drain(first, "orders:0:2,1:0", "orders:0:3,1:0")
    assert site.count_fenced_commits() == fenced + 1
    site.drain(second, "orders:0:2,1:0", "orders:0:3,1:0")
    assert site.count_fenced_commits() == fenced + 1
    assert site.beat(first).status_code == 403
    assert [attempt["outcome"] for attempt in site.stream()["attempts"]] == ["handed-back", None]


def test_an_optimizer_that_falls_silent_or_leaves_lets_another_continue(site: Site, clock: Clock) -> None:
    clock.stop()
    site.create()
    silent, other = site.register(), site.register()
    site.take(silent)
    clock.wrong = timedelta(seconds=61)
    assert site.services.stream_leases.reap() == 1
    waiting = site.stream()
    assert (waiting["status"], waiting["failures"]) == ("waiting", 1)
    assert f"{silent} fell silent" in waiting["reason"]
    assert site.take(other) is None  # a pause, because the stream may have ended its optimizer
    clock.wrong = timedelta(seconds=67)
    assert site.take(other)["attempt"] == 2
    site.ok("DELETE", f"/api/v1/optimizers/{other}")
    assert site.take(site.register())["attempt"] == 3


def test_a_silent_optimizers_stream_is_free_soon_after_the_clock_was_set_back(site: Site, clock: Clock) -> None:
    clock.stop()
    site.create()
    silent, other = site.register(), site.register()
    lease = site.take(silent)
    clock.wrong = -HOUR
    assert site.services.stream_leases.reap() == 0
    assert site.beat(lease).is_success  # it has its time to speak up
    assert site.services.stream_leases.reap() == 0
    clock.wrong += timedelta(seconds=61)
    assert site.services.stream_leases.reap() == 1
    clock.wrong += HOUR
    assert site.take(other)["attempt"] == 2


@pytest.mark.parametrize("failed", [False, True], ids=["handed-back", "failed"])
def test_a_stream_waits_no_longer_when_the_clock_was_set_back(site: Site, clock: Clock, *, failed: bool) -> None:
    clock.stop()
    site.create()
    optimizer = site.register()
    lease = site.take(optimizer)
    assert site.report(lease, "failed" if failed else "handed-back", reason="Kafka does not answer").is_success
    clock.wrong = -HOUR
    assert site.take(optimizer) is None
    assert site.services.stream_leases.reap() == 0  # no lease has ended
    clock.wrong += timedelta(minutes=1)  # the pause of one failure lasts 5 s
    assert site.take(optimizer)["attempt"] == 2


def test_failures_in_a_row_wait_longer_and_progress_ends_the_row(site: Site, clock: Clock) -> None:
    site.create()
    optimizer, pauses = site.register(), []
    for _ in range(4):
        lease = site.take(optimizer)
        assert site.beat(lease).is_success
        assert site.report(lease, "failed", reason="Kafka does not answer").status_code == 204
        waiting = site.stream()
        assert (waiting["status"], waiting["reason"]) == ("waiting", "Kafka does not answer")
        with site.services.database.reading() as uow:
            pauses.append(
                round((uow.streams.get(StreamId(UUID(waiting["id"]))).stream.retry_at - uow.now()).total_seconds())
            )
        clock.wrong += timedelta(minutes=10)
    assert pauses == [5, 10, 20, 40]
    lease = site.take(site.register())
    assert site.beat(lease, has_progressed=True, lag_rows=0, current_age_seconds=0).is_success
    running = site.stream()
    assert (running["failures"], running["reason"], running["lag_rows"], running["lag_seconds"]) == (0, None, 0, 0)


def test_a_paused_stream_commits_nothing_and_goes_on_when_it_is_resumed(site: Site) -> None:
    site.create()
    optimizer = site.register()
    lease = site.take(optimizer)
    paused = site.act("pause").json()
    assert (paused["status"], paused["allowed_actions"]) == ("paused", ["resume"])
    with pytest.raises(WriterFenced):
        site.drain(lease, "none", "orders:0:2,1:0")
    assert (site.beat(lease).status_code, site.report(lease, "failed").status_code) == (403, 403)
    assert site.act("pause").json()["status"] == "paused"
    assert site.act("restart").status_code == 409
    assert site.take(optimizer) is None
    assert site.act("resume").json()["status"] == "waiting"
    assert site.take(optimizer)["attempt"] == 2
    assert [line for line in site.log() if line in ("paused", "resumed")] == ["paused", "resumed"]


def test_a_stopped_stream_says_what_to_do_and_stops_no_other(site: Site) -> None:
    site.create()
    site.create("db.others")
    optimizer = site.register()
    leases = [site.take(optimizer), site.take(optimizer)]
    first = next(lease for lease in leases if lease["table"] == "db.orders")
    site.report(first, "stopped", reason="3 records are gone", remedy="firn log skip db.orders", log=["a line"])
    stopped = site.stream()
    assert (stopped["status"], stopped["reason"]) == ("stopped", "3 records are gone")
    assert stopped["remedy"] == "firn log skip db.orders"
    assert site.stream("db.others")["status"] == "running"
    assert site.take(optimizer) is None
    resumed = site.act("resume")
    assert (resumed.status_code, "3 records are gone" in resumed.text) == (409, True)
    restarted = site.act("restart").json()
    assert (restarted["status"], restarted["reason"], restarted["remedy"]) == ("waiting", None, None)
    assert site.take(optimizer)["table"] == "db.orders"
    assert "a line" in site.log()


def test_renamed_and_dropped_tables_end_the_attempt_with_a_reason(site: Site) -> None:
    site.create()
    optimizer = site.register()
    lease = site.take(optimizer)
    names = [{"namespace": ["db"], "name": name} for name in ("orders", "sales")]
    site.ok("POST", "/iceberg/v1/lake/tables/rename", {"source": names[0], "destination": names[1]})
    lost = site.beat(lease)
    assert (lost.status_code, lost.json()["error"]["code"]) == (403, "lease_lost")
    assert "db.orders was renamed to db.sales" in lost.text
    again = site.take(optimizer)
    assert (again["table"], again["attempt"]) == ("db.sales", 2)

    site.ok("DELETE", f"{TABLES}/db.sales")
    assert site.ok("GET", AT)["items"] == []
    assert "db.sales was dropped" in site.beat(again).text
    assert site.take(optimizer) is None
    (entry,) = site.ok("GET", "/api/v1/catalogs/lake/dropped")["items"]
    site.ok("POST", f"/api/v1/catalogs/lake/dropped/{entry['id']}/undrop", {})
    assert site.take(optimizer)["table"] == "db.sales"


def test_a_rollback_under_a_running_stream_is_refused_and_the_stream_goes_on(site: Site) -> None:
    """Plain tables can be rolled back: see tests/server/service/test_positions.py and the sinks."""
    site.create()
    lease = site.take(site.register())
    site.drain(lease, "none", "orders:0:3,1:0")
    first = site.lake.metadata(CHANGE)["current-snapshot-id"]
    site.drain(lease, "orders:0:3,1:0", "orders:0:5,1:0")
    for name in ("db.orders", "db.orders.change"):
        refused = site.http.post(f"{TABLES}/{name}/rollback", json={"snapshot_id": str(first)})
        assert (refused.status_code, "only move together" in refused.text) == (409, True), refused.text
    site.drain(lease, "orders:0:5,1:0", "orders:0:6,1:0")
    assert site.ok("GET", f"{TABLES}/db.orders/log")["position"] == "orders:0:6,1:0"


def test_the_password_goes_to_the_optimizer_with_the_lease_and_nowhere_else(site: Site) -> None:
    connection = {"name": "main", "brokers": ["kafka:9092"], "security": "sasl-plaintext", "mechanism": "PLAIN"}
    site.ok("POST", "/api/v1/connections", {**connection, "username": "u", "password": "geheim"})
    properties = {**LOG, "firn.log.connection": "main"}
    del properties["firn.log.brokers"]
    body = {"name": "db.orders", "columns": COLUMNS, "primary_key": ["id"], "properties": properties}
    site.ok("POST", TABLES, body)
    optimizer = site.register()
    lease = site.take(optimizer)
    assert lease["password"] == "geheim"
    assert "geheim" not in str([site.stream(), site.log(), site.ok("GET", "/api/v1/connections")])

    site.report(lease, "handed-back")
    site.ok("DELETE", "/api/v1/connections/main")
    assert site.take(optimizer) is None
    stopped = site.stream()
    assert (stopped["status"], "connection 'main' does not exist" in stopped["reason"]) == ("stopped", True)


def test_streams_belong_to_the_group_of_their_tables(site: Site, clock: Clock) -> None:
    site.create(**{"firn.optimize.group": "nightly"})
    assert site.stream()["group"] == "nightly"
    assert site.take(site.register()) is None
    site.ok("PATCH", f"{TABLES}/db.orders/policy", {"set": {"firn.optimize.group": "default"}})
    clock.wrong = timedelta(minutes=2)
    assert site.services.streams.measure() == 1
    assert site.take(site.register()) is not None


def test_the_server_measures_streams_that_do_not_run(site: Site, clock: Clock) -> None:
    site.create()
    clock.wrong = timedelta(minutes=2)
    assert site.services.streams.measure() == 1
    assert (site.stream()["lag_rows"], site.stream()["lag_seconds"] < 10) == (0, True)
    assert site.services.streams.measure() == 0
    site.clusters.produce("orders", (b"1", b'{"id": 1}'), (b"2", b'{"id": 2}'))
    clock.wrong = timedelta(minutes=5)
    site.services.streams.measure()
    behind = site.stream()
    assert (behind["lag_rows"], 170 < behind["lag_seconds"] < 190) == (2, True)
    site.clusters.up = frozenset()
    clock.wrong = timedelta(minutes=9)
    site.services.streams.measure()
    unknown = site.stream()
    assert (unknown["lag_rows"], unknown["lag_seconds"] > 400) == (None, True)


def test_a_writer_that_was_fenced_for_good_stops_its_stream(site: Site) -> None:
    site.create()
    optimizer = site.register()
    site.report(site.take(optimizer), "handed-back")
    site.ok("DELETE", f"{TABLES}/db.orders/writers/log")
    assert site.take(optimizer) is None
    assert "was fenced for good" in site.stream()["reason"]


def test_metrics_show_the_lag_of_each_stream_and_which_have_stopped(site: Site) -> None:
    site.create()
    lease = site.take(site.register())
    site.beat(lease, lag_rows=7, current_age_seconds=3, rows_per_second=2.5)
    text = site.http.get("/metrics").text
    labels = '{catalog="lake",table="db.orders"}'
    assert f"firn_stream_lag_rows{labels} 7.0" in text
    assert f"firn_stream_rows_per_second{labels} 2.5" in text
    assert f"firn_stream_stopped{labels} 0.0" in text
    assert 'firn_streams{status="running"} 1.0' in text
    assert f"firn_stream_bad_rows{labels} 0.0" in text
    site.report(lease, "stopped", reason="3 records are gone")
    stopped = site.http.get("/metrics").text
    assert f"firn_stream_stopped{labels} 1.0" in stopped
    assert f"firn_stream_lag_seconds{labels}" in stopped
