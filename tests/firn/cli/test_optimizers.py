"""`firn optimizer …` against a real server."""

from __future__ import annotations

import firn
from firn.protocol.leases import PROTOCOL
from tests.command_line import Command


def test_an_optimizer_is_listed_drained_stopped_and_wanted_again(run: Command, client: firn.Client) -> None:
    about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "slots": 4}
    mine = client.transport.change("POST", "/optimizers", about)["id"]
    assert "0 of 4" in run("optimizer", "list").out
    assert run("optimizer", "drain", mine, "--reason", "disks").out == f"{mine} is draining: disks; it runs 0 jobs\n"
    stopped = run("optimizer", "stop", mine, "--json").json
    assert (stopped["draining"], stopped["stopping"]) == (True, True)
    assert run("optimizer", "undrain", mine).out == f"{mine} is working; it runs 0 jobs\n"
    gone = run("optimizer", "stop", "nobody")
    assert (gone.code, "not registered" in gone.err) == (1, True)
    client.transport.change("DELETE", f"/optimizers/{mine}")
    assert run("optimizer", "list").out == "no optimizers: start one with `firn optimizer`\n"


def test_a_launch_without_access_control_is_refused_and_the_message_says_what_to_do(run: Command) -> None:
    refused = run("group", "launch", "default", "--kind", "local")
    assert (refused.code, "FIRN_ACCESS__ENABLED=true" in refused.err, "Traceback" in refused.err) == (1, True, False)
    assert "by users" in run("group", "list").out
