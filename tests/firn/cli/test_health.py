"""`firn table explain`, `health`, `block`, `unblock` and `blockers`, against a real server."""

from __future__ import annotations

from itertools import count

import pytest

import firn
from firn.cli.watch import job_row, state_of
from firn.protocol.answers.jobs import JobOut
from tests.answer_documents import JOB
from tests.command_line import Command

NUMBERS = count()
ID = [{"name": "id", "type": "long"}]


@pytest.fixture
def table(client: firn.Client) -> str:
    name = f"upkeep.t{next(NUMBERS)}"
    client.tables.create(name, ID)
    return name


def test_why_says_what_comes_next_and_when(run: Command, table: str) -> None:
    output = run("table", "explain", table)
    assert output.code == 0
    assert output.out.startswith("nothing is due: nothing to do; remove-orphans comes next")
    assert run("table", "explain", table, "--json").json["due"] is False


def test_health_is_a_score_and_its_parts(run: Command, table: str) -> None:
    output = run("table", "health", table)
    assert output.out.startswith("100 of 100\n")
    assert "small-files" in output.out
    assert run("table", "health", table, "--json").json["score"] == 100
    assert run("table", "health", table, "--measure", "--json").json["score"] == 100


def test_a_table_is_blocked_for_a_while(run: Command, table: str) -> None:
    blocker = run("table", "block", table, "--for", "2 h", "--reason", "a load", "--kind", "rewrite", "--json").json
    listed = run("table", "blockers", table)
    assert "a load" in listed.out
    assert blocker["id"] in listed.out
    refused = run("table", "rewrite", table)
    assert refused.code == 1
    assert "blocked for rewrite until" in refused.err
    assert "blocked for rewrite until" in run("table", "explain", table).out
    assert run("table", "unblock", table, "--id", blocker["id"]).code == 0
    assert run("table", "blockers", table).out == "no blockers\n"


@pytest.mark.parametrize(
    ("lasts", "words"), [("soon", "is not a duration"), ("60 d", "within 30 days"), ("9999999 d", "too long")]
)
def test_a_time_that_makes_no_sense_is_refused(run: Command, table: str, lasts: str, words: str) -> None:
    output = run("table", "block", table, "--for", lasts, "--reason", "a load")
    assert output.code != 0
    assert words in output.err


def test_a_reason_has_to_be_given(run: Command, table: str) -> None:
    assert run("table", "block", table, "--for", "2 h").code == 2


@pytest.mark.parametrize(
    ("outcome", "shown"), [("nothing to do", "nothing to do"), ("committed", "succeeded"), (None, "succeeded")]
)
def test_a_job_that_changed_nothing_is_shown_as_having_had_nothing_to_do(outcome: str | None, shown: str) -> None:
    job = JobOut.read(JOB | {"kind": "rewrite", "status": "succeeded", "outcome": outcome})
    assert state_of(job) == job_row(job)[3] == shown
