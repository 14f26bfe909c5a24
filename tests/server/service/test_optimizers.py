"""Optimizers come, hold jobs, are drained and stopped, fall silent and are forgotten, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catalog.errors import Conflict, Dismissed, NotFound
from catalog.jobs.job import JobKind
from firn.protocol.leases import PROTOCOL
from server.background.cleanup import Cleanup
from server.service.optimizers.optimizers import Optimizers, OptimizerStatus, Registration
from tests.server.lake import CHANGE, Lake


@pytest.fixture
def orders(lake: Lake) -> Lake:
    lake.create_keyed()
    lake.append(CHANGE)
    return lake


def coming(protocol: int = PROTOCOL, version: str = "0") -> Registration:
    return Registration(group="default", host="h", pid=1, version=version, protocol=protocol, slots=2)


def the_one(optimizers: Optimizers) -> OptimizerStatus:
    (optimizer,) = optimizers.list()
    return optimizer


@pytest.mark.parametrize("protocol", [0, PROTOCOL - 1, PROTOCOL + 1])
def test_an_optimizer_that_talks_differently_is_refused_with_a_reason(lake: Lake, protocol: int) -> None:
    with pytest.raises(
        Conflict, match=rf"Firn 9\.9\) speaks protocol {protocol}, the server .* speaks {PROTOCOL}"
    ) as refusal:
        lake.services.optimizers.register(coming(protocol, "9.9"))
    assert "install" in (refusal.value.hint or "")
    assert lake.services.optimizers.list() == []


def test_an_optimizer_of_another_version_that_talks_alike_is_welcome(lake: Lake) -> None:
    lake.services.optimizers.register(coming(version="9.9"))
    assert the_one(lake.services.optimizers).optimizer.version == "9.9"


def test_what_an_optimizer_holds_is_read_from_the_jobs(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    assert list(the_one(orders.services.optimizers).jobs) == [lease.job_id]
    orders.services.jobs.cancel(lease.job_id)
    assert list(the_one(orders.services.optimizers).jobs) == []


def test_a_draining_optimizer_is_given_nothing_and_keeps_what_it_holds(orders: Lake) -> None:
    lease = orders.lease(JobKind.MERGE)
    optimizers, jobs = orders.services.optimizers, orders.services.jobs
    mine = str(orders.job(lease).owner)
    shown = optimizers.drain(mine, "new disks")
    assert (shown.optimizer.draining, shown.optimizer.reason, list(shown.jobs)) == (True, "new disks", [lease.job_id])
    jobs.beat(lease, {}, [], {"rss": 5})
    after = optimizers.record_poll(mine, {})
    assert (after.draining, after.memory) == (True, {"rss": 5})
    jobs.report(lease, None, error=None, result={})
    orders.services.planner.run_now(orders.job(lease).catalog, orders.job(lease).table, JobKind.CLEAN, {})
    assert jobs.take(mine, orders.kinds) is None
    optimizers.undrain(mine)
    assert jobs.take(mine, orders.kinds) is not None


def test_a_stopped_optimizer_is_told_to_leave_until_it_is_wanted_again(lake: Lake) -> None:
    optimizers = lake.services.optimizers
    mine = lake.optimizer()
    optimizers.drain(mine, "night", stop=True)
    optimizers.drain(mine, "all night")  # a drain does not take a stop back
    with pytest.raises(Dismissed, match="has to stop: all night"):
        optimizers.record_poll(mine, {})
    optimizers.undrain(mine)
    assert not optimizers.record_poll(mine, {}).draining


def test_what_is_not_registered_cannot_be_drained(lake: Lake) -> None:
    with pytest.raises(NotFound):
        lake.services.optimizers.drain("nobody", None)
    with pytest.raises(NotFound):
        lake.services.optimizers.undrain("nobody")


def test_an_optimizer_that_is_not_heard_is_silent_and_forgotten_after_a_while(lake: Lake) -> None:
    database = lake.services.database
    lake.optimizer()
    heard = the_one(lake.services.optimizers)
    assert not heard.is_silent
    assert the_one(Optimizers(database, "0", timedelta(seconds=-1))).is_silent
    with database.writing() as uow:
        uow.optimizers.record_heartbeat(heard.optimizer.id, uow.now() - timedelta(minutes=9), {})
    assert Cleanup(database).activate().optimizers == 0
    assert the_one(lake.services.optimizers).is_silent
    with database.writing() as uow:
        uow.optimizers.record_heartbeat(heard.optimizer.id, uow.now() - timedelta(minutes=11), {})
    assert Cleanup(database).activate().optimizers == 1
    assert lake.services.optimizers.list() == []
