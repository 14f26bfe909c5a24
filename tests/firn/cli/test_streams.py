"""`firn stream …` against a real server, without a broker and without an optimizer."""

from __future__ import annotations

from io import StringIO
from typing import Any

import httpx
import pytest

import firn
from firn.logs import TableLog
from firn.protocol.answers.logs import LogResetOut, PartitionResetOut
from firn.protocol.leases import PROTOCOL
from tests.command_line import Command

LOG = {"firn.log.topic": "t", "firn.log.brokers": "127.0.0.1:1", "firn.log.format": "firn-json"}


def test_streams_are_listed_paused_resumed_and_restarted(run: Command, client: firn.Client) -> None:
    assert "no streams" in run("stream", "list", "--status", "stopped").out
    client.namespaces.create("streamed")
    client.tables.create("streamed.t", [{"name": "id", "type": "long"}], primary_key=["id"], properties=LOG)

    def listed(*options: str) -> list[tuple[str, str]]:
        """Status and topic of the table's stream; the server has tables of other tests."""
        rows = run("stream", "list", *options, "--json").json
        return [(row["status"], row["topic"]) for row in rows if row["table"] == "streamed.t"]

    assert listed() == [("waiting", "t")]
    assert "lake.streamed.t" in run("stream", "list", "--status", "waiting").out
    assert run("stream", "pause", "streamed.t").out == "the stream of lake.streamed.t is paused\n"
    assert listed("--status", "waiting") == []
    refused = run("stream", "restart", "streamed.t")
    assert "the stream is paused" in refused.err
    assert run("stream", "resume", "streamed.t", "--json").json["status"] == "waiting"
    assert run("stream", "restart", "streamed.t").out == "the stream of lake.streamed.t is waiting\n"
    shown = run("stream", "show", "streamed.t").out
    assert "behind" in shown
    assert "(aim 30 s)" in shown
    logged = run("stream", "logs", "streamed.t").out
    assert ["paused" in logged, "resumed" in logged] == [True, True]
    client.tables.create("streamed.u", [{"name": "id", "type": "long"}], primary_key=["id"])
    assert "has no stream" in run("stream", "show", "streamed.u").err


def test_the_engine_of_a_stream_and_its_reason_are_shown(run: Command, client: firn.Client) -> None:
    client.namespaces.create("engines")
    properties = {**LOG, "firn.optimize.group": "engines"}
    client.tables.create("engines.t", [{"name": "id", "type": "long"}], primary_key=["id"], properties=properties)
    with httpx.Client(base_url=f"{client.url}/api/v1/") as http:
        about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "group": "engines"}
        optimizer = http.post("optimizers", json=about).json()["id"]
        lease = http.post("stream-leases", json={"optimizer_id": optimizer, "wait_seconds": 0}).json()["lease"]
        engine = {"engine": "spark", "engine_reason": "column at is a time"}
        assert http.put(f"stream-leases/{lease}", json=engine).is_success
        (listed,) = [line for line in run("stream", "list").out.splitlines() if "lake.engines.t" in line]
        assert "spark" in listed
        assert "spark: column at is a time" in run("stream", "show", "engines.t").out
        assert http.delete(f"optimizers/{optimizer}").is_success  # other tests share the server


def test_a_reset_asks_and_then_resets_exactly_what_it_has_shown(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = list[tuple[str, dict[str, Any]]]()

    def reset(self: TableLog, to: str, **more: Any) -> LogResetOut:
        sent.append((to, more))
        step = PartitionResetOut(partition=0, start=9, position=2, left_out=0, repeated=7)
        return LogResetOut(
            dry_run=bool(more.get("dry_run")),
            start="t:0:9",
            position="t:0:2",
            partitions=[step],
            warnings=["up to 7 records are brought again"],
        )

    monkeypatch.setattr(TableLog, "reset", reset)
    monkeypatch.setattr("sys.stdin", StringIO("n\ny\n"))
    refused = run("log", "reset", "streamed.t", "--to", "earliest")
    assert (refused.code, "up to 7 records" in refused.err) == (1, True)
    assert sent == [("earliest", {"dry_run": True})]
    agreed = run("log", "reset", "streamed.t", "--to", "earliest", "--json")
    assert agreed.json["position"] == "t:0:2"
    assert sent[2:] == [("t:0:2", {"start": "t:0:9"})]
    assert "would go from t:0:9 to t:0:2" in run("log", "reset", "streamed.t", "--dry-run").out
    assert run("log", "reset", "streamed.t", "--to", "latest", "--yes").code == 0
    assert sent[3:] == [("earliest", {"dry_run": True}), ("latest", {"dry_run": False})]
