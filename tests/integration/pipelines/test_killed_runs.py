"""kill -9 of a real optimizer and of a real server in the middle of a run: the run ends, once, and nobody helps.

CI takes the deaths after which something lies there that nobody has heard of, `make soak` all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.keyed.supervisor import QUICK, Supervisor, mortal_optimizer, supervised, wait_for_kill, working
from tests.integration.pipelines.attempts import finish
from tests.integration.pipelines.derived import Derived
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), *([pytest.mark.model] if IS_SOAK else [])]

OPTIMIZER_DEATHS = ["after PipelineRun.run 1"]  # committed, and not reported
SERVER_DEATHS = ["after PipelinePins.pin 1", "before Committer._move 1", "after Committer._move 1"]
if IS_SOAK:
    OPTIMIZER_DEATHS += ["after ServerApi.pin_pipeline 1", "before ServerApi.report 1"]
    SERVER_DEATHS += ["before PipelinePins.pin 1", "after Jobs.take 1", "before Jobs.report 1", "after Jobs.report 1"]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Supervisor, RunningServer]]:
    """One server for all deaths: each is started again by the one before it."""
    with supervised(tmp_path_factory.mktemp("mortal")) as both:
        yield both


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **QUICK) as running:
        yield running


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers ask again sooner than people need it."""
    monkeypatch.setattr("optimizer.lease_loop.RETRY_SECONDS", 0.2)


def build(server: RunningServer) -> Derived:
    """A table that is built, and whose inputs have changed since."""
    derived = Derived(server, ("t",))
    run_id = derived.ask("t")
    finish(server.url, lambda: derived.have_ended(run_id))
    derived.change_inputs()
    return derived


@pytest.mark.parametrize("moment", OPTIMIZER_DEATHS)
def test_a_run_survives_the_death_of_the_optimizer(server: RunningServer, tmp_path: Path, moment: str) -> None:
    derived = build(server)
    run_id = derived.ask("t")
    with mortal_optimizer(server.url, tmp_path, moment) as process:
        wait_for_kill(process, tmp_path, has_work=lambda: not derived.have_ended(run_id))
    finish(server.url, lambda: derived.have_ended(run_id))
    assert derived.get_run(run_id).attempt == 2
    derived.check("t", commits=2)


@pytest.mark.parametrize("moment", SERVER_DEATHS)
def test_a_run_survives_the_death_of_the_server(mortal: tuple[Supervisor, RunningServer], moment: str) -> None:
    supervisor, server = mortal
    derived = build(server)
    run_id = derived.ask("t")
    supervisor.die_at(moment)
    with working(server.url):
        supervisor.start_again()
        wait_for(lambda: derived.have_ended(run_id), f"the end of the run after dying {moment}")
    assert derived.get_run(run_id).error is None
    derived.check("t", commits=2)
