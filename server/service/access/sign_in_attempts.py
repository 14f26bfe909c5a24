"""Limits failed sign-ins: the server counts them for a minute by client id and by address.

The limit must not lock out the real client. Attempts from other addresses never block an address that has not failed
with the client id. A client that has signed in from an address before always gets its secret checked there: nobody can
guess 256 bits, no matter how often they try.

Each process keeps a bounded number of counts of its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

WINDOW_SECONDS = 60.0
MOST_OF_ONE_CLIENT_AT_AN_ADDRESS = 10
MOST_AT_AN_ADDRESS = 100
"""With any client ids. Behind a proxy that does not forward addresses, all clients have one address."""
MOST_OF_ONE_CLIENT = 100
"""From any addresses."""
MOST_KEPT = 10_000
LONGEST_NAME = 200


@dataclass(slots=True)
class _Count:
    since: float
    failures: int = 0


@dataclass
class _Counts:
    """Failures by key within their windows; the oldest keys go first."""

    kept: OrderedDict[Hashable, _Count] = field(default_factory=OrderedDict)

    def add(self, key: Hashable, now: float) -> None:
        count = self.of(key, now) or _Count(now)
        count.failures += 1
        self.kept[key] = count
        self.kept.move_to_end(key)
        if len(self.kept) > MOST_KEPT:
            self.kept.popitem(last=False)

    def of(self, key: Hashable, now: float) -> _Count | None:
        count = self.kept.get(key)
        return None if count is None or now - count.since >= WINDOW_SECONDS else count

    def wait(self, key: Hashable, now: float, most: int) -> float:
        """Seconds until the server checks another attempt; 0 if it checks one now."""
        count = self.of(key, now)
        return 0.0 if count is None or count.failures < most else count.since + WINDOW_SECONDS - now


@dataclass
class FailedAttempts:
    """Counts failed sign-ins; threads may share it."""

    clock: Callable[[], float] = time.monotonic
    _pairs: _Counts = field(default_factory=_Counts)
    _clients: _Counts = field(default_factory=_Counts)
    _addresses: _Counts = field(default_factory=_Counts)
    _proven: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def compute_wait(self, client: str, address: str) -> float:
        """Seconds until the server checks this client's secret from this address; 0 if it checks it now."""
        client, address = client[:LONGEST_NAME], _network(address)
        with self._lock:
            now = self.clock()
            if (client, address) in self._proven:
                return 0.0
            pair = (client, address)
            # While many addresses try this client id, only those that have failed with it wait.
            flooded = self._clients.wait(client, now, MOST_OF_ONE_CLIENT)
            by_client = flooded if self._pairs.of(pair, now) else 0.0
            by_pair = self._pairs.wait(pair, now, MOST_OF_ONE_CLIENT_AT_AN_ADDRESS)
            return max(by_client, by_pair, self._addresses.wait(address, now, MOST_AT_AN_ADDRESS))

    def record_failure(self, client: str, address: str) -> None:
        """Record that client id and secret did not match."""
        client, address = client[:LONGEST_NAME], _network(address)
        with self._lock:
            now = self.clock()
            self._pairs.add((client, address), now)
            self._clients.add(client, now)
            self._addresses.add(address, now)

    def record_success(self, client: str, address: str) -> None:
        """Record a sign-in; the client never waits at this address again."""
        pair = (client[:LONGEST_NAME], _network(address))
        with self._lock:
            self._proven[pair] = None
            self._proven.move_to_end(pair)
            if len(self._proven) > MOST_KEPT:
                self._proven.popitem(last=False)


def _network(address: str) -> str:
    """The address; for IPv6 its /64 network, because a client usually owns all addresses of its network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:LONGEST_NAME]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped) if parsed.ipv4_mapped else str(IPv6Address(int(parsed) >> 64 << 64))
