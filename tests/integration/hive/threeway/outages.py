"""Outages of HDFS while something is done: nodes end and come back, the name node stands still or is in safe mode.

In a world with Kerberos the KDC ends, too, for longer than the tickets of the server last.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from tests.integration.hive.threeway.deaths import DEATHS, Death, Deaths

if TYPE_CHECKING:
    from tests.integration.hdfs.daemons import Daemons
    from tests.integration.hive.threeway.world import World

LONGEST_DELAY_SECONDS = 3.0
TICKET_SECONDS = 30
"""The lifetime of the tickets of the server in a world with Kerberos."""


class Outages(Deaths):
    """Something is done, HDFS fails meanwhile, and it is asked for again until it is done."""

    def name_node_restarts(self) -> str:
        return self._while_away(self._without_name_node, 1.0, 8.0)

    def name_node_hangs(self) -> str:
        """What it was asked happens later, when nobody waits for it any more."""
        return self._while_away(self._frozen_name_node, 2.0, 20.0)

    def safe_mode(self) -> str:
        return self._while_away(self._safe_mode, 2.0, 10.0)

    def data_node_dies(self) -> str:
        return self._while_away(self._without_data_node, 1.0, 8.0)

    def kdc_is_away(self) -> str:
        """What is done begins while the tickets of the server are valid, or after they have expired."""
        realm = self.history.world.realm
        assert realm is not None
        action = self.history.random.choice(["publish", "sync", "write"])
        before = self.history.random.choice([0.0, TICKET_SECONDS + 2.0])
        away = self.history.random.choice([3.0, 15.0])

        def disturbed(act: Callable[[], object], _: Callable[[], object]) -> None:
            realm.stop()
            time.sleep(before)
            thread = self._begin(act)
            time.sleep(away)
            realm.start()
            thread.join()

        kill: Death = disturbed
        return self._while_dying(action, kill, f"begun after {before:g} s, for {away:g} s more")

    def _begin(self, act: Callable[[], object]) -> threading.Thread:
        """Do something beside an outage; what the steps say shows whether it was refused."""

        def attempt() -> None:
            try:
                act()
            except (AssertionError, httpx.TransportError):
                self.history.log[-1] += " refused;"

        thread = threading.Thread(target=attempt)
        thread.start()
        return thread

    @property
    def _hdfs(self) -> Daemons:
        hdfs = self.history.world.hdfs
        assert hdfs is not None
        return hdfs

    def _while_away(self, outage: Callable[[], contextlib.AbstractContextManager[None]], *seconds: float) -> str:
        action = self.history.random.choice(["publish", "sync", "write"])
        delay = self.history.random.uniform(0, LONGEST_DELAY_SECONDS)
        away = self.history.random.choice(seconds)

        def disturbed(act: Callable[[], object], _: Callable[[], object]) -> None:
            thread = self._begin(act)
            time.sleep(delay)
            with outage():
                time.sleep(away)
            self._hdfs.wait()
            thread.join()
            # A connection of Java to a name node that has died fails at its next use, and Spark does not repeat that.
            with contextlib.suppress(AssertionError):
                self.history.hive.rows_by_spark()

        kill: Death = disturbed
        return self._while_dying(action, kill, f"after {delay:.1f} s for {away:g} s")

    @contextmanager
    def _without_name_node(self) -> Iterator[None]:
        self._hdfs.kill("nn1")
        yield
        self._hdfs.start("nn1")

    @contextmanager
    def _frozen_name_node(self) -> Iterator[None]:
        with self._hdfs.frozen("nn1"):
            yield

    @contextmanager
    def _safe_mode(self) -> Iterator[None]:
        self._hdfs.set_safe_mode(on=True)
        yield
        self._hdfs.set_safe_mode(on=False)

    @contextmanager
    def _without_data_node(self) -> Iterator[None]:
        name = self.history.random.choice(self._hdfs.data_nodes)
        self._hdfs.kill(name)
        yield
        self._hdfs.start(name)


OUTAGES: Mapping[str, Callable[[Outages], str]] = {
    "restart the name node": Outages.name_node_restarts,
    "lose a data node": Outages.data_node_dies,
    "safe mode": Outages.safe_mode,
    "freeze the name node": Outages.name_node_hangs,
    "kill the server": DEATHS["kill the server"],
}
SECURE_OUTAGES: Mapping[str, Callable[[Outages], str]] = {**OUTAGES, "stop the KDC": Outages.kdc_is_away}


def deaths_in(world: World) -> Mapping[str, Callable[[Outages], str]]:
    """What histories meet in a world."""
    if world.hdfs is None:
        return DEATHS
    return OUTAGES if world.realm is None else SECURE_OUTAGES
