"""`firn connection …` against a real server, without a broker."""

from __future__ import annotations

import pytest

import firn
from tests.command_line import Command


def test_connections_are_created_listed_and_dropped(
    run: Command, client: firn.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no connections" in run("connection", "list").out
    created = run("connection", "create", "kafka", "main", "--brokers", "127.0.0.1:1, 127.0.0.1:2")
    assert created.out == "created connection main\n"
    monkeypatch.setenv("FIRN_KAFKA_PASSWORD", "correct horse")
    options = ("--security", "sasl-plaintext", "--mechanism", "PLAIN", "--username", "ada", "--json")
    secure = run("connection", "create", "kafka", "secure", "--brokers", "127.0.0.1:1", *options)
    assert "correct horse" not in secure.out
    assert (secure.json["has_password"], secure.json["security"]) == (True, "sasl-plaintext")
    assert "127.0.0.1:1, 127.0.0.1:2" in run("connection", "list").out
    assert client.connections.get("secure").username == "ada"
    for name in ("main", "secure"):
        assert run("connection", "drop", name).out == f"dropped connection {name}\n"
    assert client.connections.list() == []
