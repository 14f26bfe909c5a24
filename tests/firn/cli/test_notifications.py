"""`firn notification …` against a real server and a real receiver."""

from __future__ import annotations

import pytest

import firn
from tests.command_line import Command
from tests.receivers import http_receiver


def test_rules_are_created_tested_silenced_and_dropped(
    run: Command, client: firn.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no rules" in run("notification", "rule", "list").out
    assert "no notifications" in run("notification", "list").out
    with http_receiver() as receiver:
        created = run("notification", "rule", "create", "ops", "--on", "job_failed", "--url", receiver.url)
        assert created.out.startswith("created rule ops\nwhsec_")
        assert run("notification", "rule", "test", "ops").out == "the receiver has accepted the test message\n"
        receiver.status = 500
        assert "answers 500" in run("notification", "rule", "test", "ops").out
    assert len(receiver.received) == 2
    shown = run("notification", "rule", "show", "ops").out
    assert receiver.url in shown
    assert "whsec_" not in shown
    silenced = run("notification", "rule", "silence", "ops", "--minutes", "5", "--subject", "db.t", "--json").json
    assert silenced["silences"][0]["subject"] == "db.t"
    assert client.notifications.change_rule("ops", resolved=False).resolved is False
    assert list(client.notifications.list(rule="ops", states=["failed"])) == []
    monkeypatch.setenv("FIRN_WEBHOOK_URL", "https://hooks.slack.com/services/s3cret")
    slack = run("notification", "rule", "create", "chat", "--on", "not_fresh", "--channel", "slack", "--json")
    assert "s3cret" not in slack.out
    assert slack.json["secret"] is None
    for name in ("ops", "chat"):
        assert run("notification", "rule", "drop", name).out == f"dropped rule {name}\n"
    assert client.notifications.rules() == []
