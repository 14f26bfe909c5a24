"""`firn optimizer …` and the launches of `firn group …` against a real server."""

from __future__ import annotations

import firn
from catalog.optimizer import PROTOCOL
from tests.firn.cli.conftest import Command


def test_an_optimizer_is_listed_drained_stopped_and_wanted_again(run: Command, client: firn.Client) -> None:
    about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "slots": 4}
    mine = client.transport.change("POST", "/optimizers", about)["id"]
    assert "0 of 4" in run("optimizer", "list").out
    assert run("optimizer", "drain", mine, "--why", "disks").out == f"{mine} is draining: disks, holding 0 jobs\n"
    stopped = run("optimizer", "stop", mine, "--json").json
    assert (stopped["draining"], stopped["stopping"]) == (True, True)
    assert run("optimizer", "undrain", mine).out == f"{mine} is working, holding 0 jobs\n"
    gone = run("optimizer", "stop", "nobody")
    assert (gone.code, "not registered" in gone.err) == (1, True)
    client.transport.change("DELETE", f"/optimizers/{mine}")
    assert run("optimizer", "list").out == "no optimizers: start one with `firn optimizer`\n"


def test_a_groups_launch_is_set_piece_by_piece_and_scaled(run: Command) -> None:
    made = run("group", "launch", "default", "--kind", "local", "--conf", "spark.a=b=c", "--json").json
    assert (made["kind"], made["conf"], made["scaling"]["minimum"]) == ("local", {"spark.a": "b=c"}, 0)
    three = ("--set", "memory=3g", "--set", "idle_seconds=3")
    assert run("group", "launch", "default", *three, "--json").json["conf"] == {"spark.a": "b=c"}
    scaled = run("group", "scale", "default", "--min", "0", "--max", "7", "--json").json
    assert (scaled["scaling"]["maximum"], scaled["scaling"]["idle_seconds"], scaled["memory"]) == (7, 3, "3g")
    assert "0 to 7" in run("group", "launch", "default").out
    refused = run("group", "scale", "default", "--min", "2", "--max", "1")
    assert (refused.code, "bounds rise" in refused.err) == (2, True)
    assert run("group", "launch", "default", "--kind", "none", "--json").json["wanted"] == 0
