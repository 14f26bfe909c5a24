"""A network that loses, delays, doubles and repeats commits, one after the other in a fixed order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

import httpx

from tests.lossy_proxy import Forward, meddling_proxy

LATE_SECONDS = 1.0
Fate = Callable[["Network", Forward], httpx.Response | None]


def arrives(network: Network, forward: Forward) -> httpx.Response | None:
    return forward()


def is_not_answered(network: Network, forward: Forward) -> httpx.Response | None:
    forward()
    return None


def never_arrives(network: Network, forward: Forward) -> httpx.Response | None:
    return None


def arrives_twice(network: Network, forward: Forward) -> httpx.Response | None:
    forward()
    return forward()


def arrives_late_and_is_not_answered(network: Network, forward: Forward) -> httpx.Response | None:
    late = threading.Timer(LATE_SECONDS, forward)
    network.on_their_way.append(late)
    late.start()
    return None


def is_answered_late(network: Network, forward: Forward) -> httpx.Response | None:
    answer = forward()
    time.sleep(LATE_SECONDS)
    return answer


def is_answered_by_a_tired_gateway(network: Network, forward: Forward) -> httpx.Response | None:
    forward()
    return httpx.Response(504)


def is_turned_away_by_a_gateway(network: Network, forward: Forward) -> httpx.Response | None:
    return httpx.Response(502)


FATES: list[Fate] = [
    is_not_answered, arrives, arrives_late_and_is_not_answered, arrives, arrives_twice, never_arrives, arrives,
    is_answered_by_a_tired_gateway, is_answered_late, is_turned_away_by_a_gateway, arrives,
]  # fmt: skip


@dataclass
class Network:
    """Between one client and the server; commits on the table get the next fate, all else arrives."""

    path: str
    fates: Iterator[Fate] = field(default_factory=lambda: cycle(FATES))
    met: list[str] = field(default_factory=list)
    on_their_way: list[threading.Timer] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        if method != "POST" or path != self.path:
            return forward()
        with self.lock:
            fate = next(self.fates)
            self.met.append(fate.__name__)
        return fate(self, forward)

    def settle(self) -> None:
        """Until nothing is on its way any more."""
        for late in self.on_their_way:
            late.join()


@contextmanager
def unreliable(url: str, namespace: str, table: str) -> Iterator[tuple[str, Network]]:
    """The address of a proxy before the server, and what it does to commits on a table."""
    network = Network(f"/iceberg/v1/lake/namespaces/{namespace}/tables/{table}")
    with meddling_proxy(url, network) as proxy:
        yield proxy.url, network
