"""Optimizers die, sleep and hear no answers at each step of a run: the rows stay right, and each run commits once.

Rules 8.1 to 8.3, 8.7 and 8.8 of docs/protocols.md on real tables.
"""

from __future__ import annotations

import pytest

from firn.errors import Refused
from tests.integration.pipelines.attempts import MOMENTS, Fate, asleep, bury, finish, work_until
from tests.integration.pipelines.derived import Derived
from tests.lossy_proxy import lossy_proxy
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def run(derived: Derived, *names: str) -> list[dict[str, object]]:
    """Run tables as a sound optimizer does; return the results."""
    ids = [derived.ask(name) for name in names]
    finish(derived.server.url, lambda: derived.have_ended(*ids))
    ended = [derived.get_run(run_id) for run_id in ids]
    assert [run.error for run in ended] == [None] * len(ids)
    return [run.result for run in ended]


def test_an_optimizer_may_die_after_any_step(server: RunningServer) -> None:
    """One table dies after each step of its second run; then one optimizer finishes all of them.

    A run that appends would add the same rows again; those of tables with a key die at the same steps in a first run.
    """
    derived = Derived(server, MOMENTS, appends=("computed", "committed"))
    run(derived, *MOMENTS)
    derived.change_inputs()
    ids, fates = [], [Fate(moment) for moment in MOMENTS]
    for fate in fates:
        ids.append(derived.ask(fate.moment))
        work_until(server.url, fate)
    assert [len(derived.positions(moment)) for moment in MOMENTS] == [1, 1, 2, 2]
    bury(server.url, *fates)
    finish(server.url, lambda: derived.have_ended(*ids))
    for moment in MOMENTS:
        derived.check(moment, commits=2)


def test_a_first_run_may_die_after_any_step(server: RunningServer) -> None:
    derived = Derived(server, ("computed", "committed"))
    ids, fates = [], [Fate(moment) for moment in derived.names]
    for fate in fates:
        ids.append(derived.ask(fate.moment))
        work_until(server.url, fate)
    bury(server.url, *fates)
    finish(server.url, lambda: derived.have_ended(*ids))
    for moment in derived.names:
        derived.check(moment, commits=1)


@pytest.mark.parametrize(("moment", "key"), [("pinned", ("driver", "day")), ("computed", ())])
def test_a_run_that_wakes_after_another_one_changes_nothing(
    server: RunningServer, moment: str, key: tuple[str, ...]
) -> None:
    derived = Derived(server, ("t",), key)
    run(derived, "t")
    derived.change_inputs()
    run_id = derived.ask("t")
    with asleep(server.url, moment) as fate:
        bury(server.url, fate)
        finish(server.url, lambda: derived.have_ended(run_id))
        derived.add_trips(201, 4)
        run(derived, "t")
        after = derived.positions("t")
        derived.check("t", commits=3)
    assert derived.positions("t") == after
    derived.check("t", commits=3)


def test_nothing_is_committed_after_a_cancel_a_reset_or_a_drop(server: RunningServer) -> None:
    derived = Derived(server, ("t",))
    run(derived, "t")
    before = derived.rows("t")
    derived.change_inputs()
    run_id = derived.ask("t")
    with asleep(server.url, "computed"):
        derived.client.jobs.cancel(run_id)
    assert (derived.rows("t"), len(derived.positions("t"))) == (before, 1)
    run_id = derived.ask("t")
    with asleep(server.url, "computed") as fate:
        derived.pipeline.reset(derived.table("t"))
        bury(server.url, fate)
    assert (derived.rows("t"), len(derived.positions("t"))) == (before, 1)
    finish(server.url, lambda: derived.have_ended(run_id))
    (result,) = run(derived, "t")
    derived.check("t", commits=2)
    derived.change_inputs()
    derived.ask("t")
    with asleep(server.url, "computed"):
        derived.pipeline.drop()
    assert len(derived.positions("t")) == 2
    assert result["checkpoint"] is not None


@pytest.mark.parametrize("end", ["/pins", "/tables/change", "/checkpoint", "/report"])
def test_a_lost_answer_costs_nothing_but_time(server: RunningServer, end: str) -> None:
    derived = Derived(server, ("t",))
    run(derived, "t")
    if end == "/checkpoint":  # a commit that changes no row
        derived.move_drivers(0)
    else:
        derived.change_inputs()
    lost = list[str]()

    def loses(method: str, path: str) -> bool:
        is_first = method == "POST" and path.endswith(end) and not lost
        if is_first:
            lost.append(path)
        return is_first

    run_id = derived.ask("t")
    with lossy_proxy(server.url, loses) as proxy:
        finish(proxy.url, lambda: derived.have_ended(run_id))
    assert len(lost) == 1
    assert derived.get_run(run_id).error is None
    derived.check("t", commits=1 if end == "/checkpoint" else 2)


def test_a_run_without_news_commits_nothing(server: RunningServer) -> None:
    derived = Derived(server, ("t",))
    run(derived, "t")
    (result,) = run(derived, "t")
    assert result["mode"] == "nothing"
    derived.move_drivers(0)  # the same rows again: an input has changed, and no row of the table
    (result,) = run(derived, "t")
    assert (result["mode"], result["written"], result["deleted"]) == ("incremental", 0, 0)
    derived.check("t", commits=1)


def test_a_changed_query_is_computed_in_full_once(server: RunningServer) -> None:
    derived = Derived(server, ("t",))
    run(derived, "t")
    other = derived.query.replace("sum(t.fare)", "max(t.fare)")
    with pytest.raises(Refused) as refusal:
        derived.put(query=other)
    assert "firn pipeline put --rebuild" in str(refusal.value.hint)
    derived.put(query=other, rebuild=True)
    full, after = run(derived, "t"), run(derived, "t")
    assert [result["mode"] for result in (*full, *after)] == ["full", "nothing"]
    assert derived.rows("t") != derived.full_rows()  # sums, and not the largest values
