"""The loop that takes leases, and the delivery of reports."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import httpx
import pytest

from optimizer import lease_loop
from optimizer.errors import Dismissed, LeaseLost, NotWelcome, Unregistered
from optimizer.lease_loop import LeaseLoop, deliver_report
from optimizer.registration import Registration

UNREACHABLE = httpx.ConnectError("no server")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_loop, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(lease_loop, "IDLE_SECONDS", 0.001)


class Registrations:
    """A server that gives each registration a new id."""

    def __init__(self) -> None:
        self.number = 1
        self.forgotten: list[str] = []

    def get(self) -> str:
        return f"o{self.number}"

    def forget(self, optimizer_id: str) -> None:
        self.forgotten.append(optimizer_id)
        self.number += 1


def run(answers: list[str | Exception | None], *, decides: bool) -> tuple[list[str], list[str], Registrations]:
    """Answer each question for a lease in turn, then stop. Returns who asked, and the leases that were worked on."""
    asked: list[str] = []
    worked: list[str] = []
    registrations, stopping, left = Registrations(), threading.Event(), iter(answers)

    def take(optimizer_id: str) -> str | None:
        asked.append(optimizer_id)
        answer = next(left)
        if len(asked) == len(answers):
            stopping.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    loop = LeaseLoop(
        kind="stream",
        registration=cast("Registration", registrations),
        stopping=stopping,
        slots=2,
        take=take,
        work=worked.append,
        decides=decides,
    )
    loop.run()
    return asked, worked, registrations


def test_each_lease_is_worked_on_and_errors_of_the_server_are_no_end() -> None:
    asked, worked, _ = run(["a", None, UNREACHABLE, "b", "c"], decides=True)
    assert (len(asked), sorted(worked)) == (5, ["a", "b", "c"])


def test_an_optimizer_that_the_server_does_not_know_registers_again() -> None:
    asked, worked, registrations = run([Unregistered(), "a"], decides=True)
    assert (asked, worked, registrations.forgotten) == (["o1", "o2"], ["a"], ["o1"])


@pytest.mark.parametrize("refusal", [Dismissed("drained"), NotWelcome("no such token")])
def test_a_refusal_ends_the_loop_that_decides_and_no_loop_beside_it(refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        run([refusal, "a"], decides=True)
    _, worked, _ = run([refusal, "a"], decides=False)
    assert worked == ["a"]


def raising(*errors: Exception | None) -> tuple[Callable[[], None], list[Exception | None]]:
    left, sent = iter(errors), list[Exception | None]()

    def send() -> None:
        sent.append(error := next(left))
        if error is not None:
            raise error

    return send, sent


@pytest.mark.parametrize(
    ("errors", "times"),
    [
        ([None], 1),
        ([UNREACHABLE, None], 2),
        ([UNREACHABLE, UNREACHABLE, UNREACHABLE], 3),
        ([UNREACHABLE, LeaseLost("it was heard the first time")], 2),
    ],
)
def test_a_report_is_sent_again_only_while_the_server_does_not_answer(
    errors: list[Exception | None], times: int
) -> None:
    send, sent = raising(*errors)
    deliver_report(send, threading.Event(), about={"job": "j"}, pauses=(0.001, 0.001))
    assert len(sent) == times


def test_a_stop_ends_the_repetitions_of_a_report() -> None:
    send, sent = raising(UNREACHABLE, None)
    stopping = threading.Event()
    stopping.set()
    deliver_report(send, stopping, about={}, pauses=(60.0,))
    assert len(sent) == 1
