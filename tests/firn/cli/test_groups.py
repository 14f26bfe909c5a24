"""`firn group …` against a real server."""

from __future__ import annotations

from firn.cli.status import bars
from tests.command_line import Command


def test_a_group_is_created_set_listed_and_dropped(run: Command) -> None:
    created = run("group", "create", "nightly", "--reserved-slots", "2", "--json").json
    assert (created["name"], created["reserved_slots"]) == ("nightly", 2)
    changed = run("group", "set", "nightly", "--description", "large tables", "--json").json
    assert (changed["description"], changed["reserved_slots"]) == ("large tables", 2)  # what is not given stays
    assert "large tables" in run("group", "list").out
    assert run("group", "show", "nightly", "--json").json == changed
    assert run("group", "drop", "nightly").out == "dropped group nightly\n"
    assert [group["name"] for group in run("group", "list", "--json").json] == ["default"]


def test_what_is_wrong_with_a_group_is_said_in_words(run: Command) -> None:
    output = run("group", "drop", "default")
    assert (output.code, "always there" in output.err) == (1, True)
    output = run("group", "create", "two words")
    assert (output.code, "1 to 50 letters" in output.err) == (2, True)


def test_background_work_is_shown_at_a_glance(run: Command) -> None:
    output = run("status")
    assert (output.code, "default" in output.out) == (0, True)
    assert "the queue is empty" in output.out or "priority" in output.out  # other tests may have left jobs
    status = run("status", "--json").json
    assert status["groups"][0]["name"] == "default"
    last_hour, last_day = status["last_hour"], status["last_day"]  # other tests may have ended jobs
    assert sum(row["jobs"] for row in last_hour["by_kind"]) == last_hour["jobs"] <= last_day["jobs"]


def test_hours_are_drawn_as_high_as_they_are() -> None:
    assert bars([0, 1, 8, 4, 0]) == " ▁█▄ "
    assert bars([0, 1, 1_000_000]) == " ▁█"


def test_tables_are_listed_by_how_they_stand(run: Command) -> None:
    assert run("table", "list", "--sort", "health", "--health-below", "50").code == 0
    assert run("table", "list", "--sort", "smell").code == 2
