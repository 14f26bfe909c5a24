"""What the workers of jobs, streams and queries share: the loop that takes leases, and the delivery of reports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import httpx

from optimizer.errors import Dismissed, JobError, LeaseLost, NotWelcome, Unregistered
from optimizer.registration import Registration
from optimizer.slots import Slots

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
IDLE_SECONDS = 0.3
"""Between two questions that were answered with nothing: a server with too many waiters answers at once."""
FREE_SECONDS = 1.0
"""The longest time until a stop is noticed while all slots are busy."""
REPORT_PAUSES = (1.0, 5.0)

Leased = TypeVar("Leased")


@dataclass(frozen=True, kw_only=True)
class LeaseLoop(Generic[Leased]):
    """Takes a lease for each free slot of one kind, and gives it to the slot's thread."""

    kind: str
    """What is leased: `job`, `stream` or `query`."""
    registration: Registration
    stopping: threading.Event
    slots: int
    take: Callable[[str], Leased | None]
    """Asks the server for a lease of the optimizer with this id, and waits for it a while."""
    work: Callable[[Leased], None]
    """Runs in a thread of its own. It reports errors itself."""
    decides: bool = True
    """Whether it ends when the server refuses this optimizer. A loop beside one that does so asks again instead."""

    def run(self) -> None:
        """Work until `stopping` is set, and wait for what has been begun.

        One thread asks for leases, and only while a slot is free. It repeats requests that the server does not answer.
        If it decides, it raises Dismissed and NotWelcome; and whatever else `take` raises.
        """
        with Slots(self.slots, name=self.kind) as slots:
            while not self.stopping.is_set():
                optimizer_id = ""
                try:
                    optimizer_id = self.registration.get()
                    self._fill(slots, optimizer_id)
                except Unregistered:
                    self.registration.forget(optimizer_id)
                except (Dismissed, NotWelcome) as error:
                    if self.decides:
                        raise
                    log.info("no %s: %s", self.kind, error)
                    self.stopping.wait(RETRY_SECONDS)
                except httpx.HTTPError as error:
                    log.warning("the server does not answer: %s; asking again in %g s", error, RETRY_SECONDS)
                    self.stopping.wait(RETRY_SECONDS)

    def _fill(self, slots: Slots, optimizer_id: str) -> None:
        """Give a lease to a free slot, if there are both."""
        if not slots.take(FREE_SECONDS):
            return
        try:
            lease = self.take(optimizer_id)
        except BaseException:
            slots.release()
            raise
        if lease is None:
            slots.release()
            self.stopping.wait(IDLE_SECONDS)
        else:
            slots.give(partial(self.work, lease))


def deliver_report(
    send: Callable[[], None],
    stopping: threading.Event,
    *,
    about: Mapping[str, object],
    pauses: Sequence[float] = REPORT_PAUSES,
) -> None:
    """Send a report, and once more after each pause while the server does not answer. It raises no error of the server.

    The server does not need the report: it ends the lease in time. `about` goes into each line of the log.
    """
    for pause in (*pauses, None):
        try:
            send()
        except LeaseLost as error:  # or it was heard the first time, and its answer lost
            log.warning("too late to report: %s", error, extra=dict(about))
        except JobError as error:
            log.warning("the report was refused: %s", error, extra=dict(about))
        except httpx.HTTPError as error:
            log.warning("the report did not get through: %s", error, extra=dict(about))
            if pause is not None and not stopping.wait(pause):
                continue
        return
