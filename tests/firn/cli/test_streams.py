"""`firn stream …` against a real server, without a broker and without an optimizer."""

from __future__ import annotations

import firn
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
