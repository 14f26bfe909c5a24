"""An import dies, loses its lead, its source or its database at each step; what goes on afterwards takes each once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import cast

import pytest

from catalog.errors import CommitUnknown, Conflict
from catalog.imports.spec import Secrets
from catalog.jobs.operation import Operation
from catalog.ports.store import Database
from firn.protocol.operations import OperationStatus
from server.service.imports.attempt import TRIES
from tests.factories import LAKE
from tests.server.faults import FaultyDatabase, Killed
from tests.server.service.imports.importing import Importing

PATHS = ("sales/a", "sales/b", "hr/a")


@pytest.fixture
def full(mortal: Importing) -> Importing:
    for path in PATHS:
        mortal.elsewhere.table(path)
    mortal.elsewhere.view("hr/v")
    return mortal


def check_imported(here: Importing, operation: Operation) -> None:
    """Everything is there once, and the books say so."""
    ended = here.operation(operation)
    assert ended.status is OperationStatus.SUCCEEDED
    assert (ended.done, ended.total, ended.result["counts"]) == (4, 4, {"registered": 4})
    for path in PATHS:
        assert here.pointer(path.replace("/", ".")) == here.elsewhere.location(path)
    with here.reading() as uow:
        events = [str(event.table) for event in uow.events.list(LAKE, None, limit=100).items]
        assert sorted(events) == ["hr.a", "hr.v", "sales.a", "sales.b"]
        assert uow.imports.secrets(operation.id) is None


def forget(here: Importing) -> None:
    """As if nothing had been imported."""
    for name in ("hr.a", "hr.v", "sales.a", "sales.b"):
        relation = here.relation(name)
        if relation is not None:
            with here.database.writing() as uow:
                uow.dropped.take(relation.id)
    with here.database.writing() as uow:
        for namespace in (("sales",), ("hr",)):
            if uow.namespaces.exists(LAKE, namespace):
                uow.namespaces.remove(LAKE, namespace)


def test_a_killed_import_is_finished_by_the_next_process(full: Importing) -> None:
    operation = full.start(full.spec(), Secrets())
    died = 0
    while True:
        full.fuse.left = 7  # the first process lives until it has listed, the others for two entries each
        try:
            full.imports.activate()
        except Killed:
            died += 1
            full = full.restarted()
        else:
            break
        assert died < 60
    check_imported(full, operation)
    assert died >= 3


def test_a_kill_at_any_moment_loses_nothing_and_takes_nothing_twice(full: Importing) -> None:
    moment = 0
    while True:
        moment += 1
        operation = full.start(full.spec())
        full.fuse.left = moment
        try:
            full.imports.activate()
        except Killed:
            full = full.restarted()
            full.imports.activate()
            ended = full.operation(operation)
            assert (ended.status, ended.result["counts"]) == (OperationStatus.SUCCEEDED, {"registered": 4}), moment
        else:
            break
        forget(full)
    assert moment > 15  # before and after: journal, lists, two namespaces, four relations, the end


def test_a_server_that_has_lost_its_lead_registers_nothing_more(full: Importing) -> None:
    for moment in range(1, 8):
        operation = full.start(full.spec())
        other = full.restarted()
        full.fuse.meanwhile(moment, other.imports.activate)
        full.imports.activate()
        ended = full.operation(operation)
        assert (ended.status, ended.result["counts"]) == (OperationStatus.SUCCEEDED, {"registered": 4}), moment
        forget(full)


def test_a_canceled_import_stops_and_keeps_what_it_has_registered(full: Importing) -> None:
    for moment in range(1, 7):
        operation = full.start(full.spec())
        cancel = partial(full.restarted().services.hive.operations.cancel, operation.id)
        full.fuse.meanwhile(moment, cancel)
        full.imports.activate()
        full.imports.activate()
        ended = full.operation(operation)
        assert ended.status is OperationStatus.CANCELED
        registered = [path for path in PATHS if full.relation(path.replace("/", ".")) is not None]
        counts = ended.result.get("counts", {})
        assert len(registered) <= counts.get("registered", 0) <= 4
        forget(full)


def test_an_import_whose_commit_nobody_saw_is_looked_at_again(full: Importing) -> None:
    for number in range(1, 17):
        operation = full.start(full.spec())
        faulty = FaultyDatabase(full.database)
        shaky = replace(full, database=cast("Database", faulty)).restarted()
        is_lost = faulty.end_unknown_after_commit if number % 2 else faulty.end_unknown_without_commit
        shaky.fuse.meanwhile((number + 1) // 2, is_lost)
        with pytest.raises(CommitUnknown):
            shaky.imports.activate()
        full.restarted().imports.activate()
        ended = full.operation(operation)
        assert (ended.status, ended.result["counts"]) == (OperationStatus.SUCCEEDED, {"registered": 4})
        forget(full)


def test_a_source_that_is_away_is_waited_for_and_not_hammered(full: Importing) -> None:
    full.other.namespaces = {("db",): {}}
    full.other.located = {(("db",), "a"): full.elsewhere.location("sales/a")}
    full.other.answers = False
    operation = full.start(full.rest(), Secrets(token="t"))
    full.imports.activate()
    waiting = full.operation(operation)
    assert (waiting.status, waiting.phase) == (OperationStatus.RUNNING, "waiting for the source")
    assert waiting.error == "the other catalog does not answer"
    request_count = full.other.request_count
    for _ in range(5):
        assert full.imports.activate().waiting == 1
    assert full.other.request_count == request_count
    full.other.answers = True
    full.imports.resume(LAKE, operation.id)
    full.imports.activate()
    ended = full.operation(operation)
    assert (ended.status, ended.error) == (OperationStatus.SUCCEEDED, None)
    with pytest.raises(Conflict, match="has succeeded"):
        full.imports.resume(LAKE, operation.id)


def test_a_source_that_stays_away_ends_the_import_in_words(full: Importing) -> None:
    full.other.answers = False
    operation = full.start(full.rest(), Secrets(token="t"))
    pauses: list[timedelta] = []
    for _ in range(TRIES):
        full.imports.activate()
        now = full.operation(operation)
        if now.status is OperationStatus.RUNNING:
            pauses.append(timedelta(seconds=round(_until(now).total_seconds())))
            full.imports.resume(LAKE, operation.id)
    ended = full.operation(operation)
    assert ended.status is OperationStatus.FAILED
    assert "start the same import again" in (ended.hint or "")
    assert pauses == sorted(pauses)
    assert pauses[-1] == timedelta(minutes=5)
    with full.reading() as uow:
        assert uow.imports.secrets(operation.id) is None


def _until(operation: Operation) -> timedelta:
    return datetime.fromisoformat(operation.journal["retry_at"]) - operation.updated_at


def test_one_table_that_the_source_cannot_give_does_not_hold_up_the_others(full: Importing) -> None:
    full.other.namespaces = {("db",): {}}
    full.other.located = {(("db",), name): full.elsewhere.location(f"sales/{name}") for name in ("a", "b")}
    full.other.silent_for = {"a"}
    assert full.states(full.rest()) == {"db.a": "failed", "db.b": "registered"}


def test_a_source_that_goes_away_in_the_middle_is_gone_on_with_where_it_stopped(full: Importing) -> None:
    full.other.namespaces = {("db",): {}}
    full.other.located = {(("db",), name): full.elsewhere.location(f"sales/{name}") for name in ("a", "b")}
    operation = full.start(full.rest())
    full.fuse.meanwhile(3, lambda: setattr(full.other, "answers", False))  # once everything is listed
    full.imports.activate()
    assert full.operation(operation).phase == "waiting for the source"
    full.other.answers = True
    full.imports.resume(LAKE, operation.id)
    full.imports.activate()
    assert full.operation(operation).result["counts"] == {"registered": 2}


def test_a_server_that_stops_leaves_the_rest_to_its_next_start(full: Importing) -> None:
    operation = full.start(full.spec())
    full.imports.signals.halted.set()
    full.imports.activate()
    assert full.operation(operation).status is OperationStatus.RUNNING
    full.restarted().imports.activate()
    check_imported(full, operation)
