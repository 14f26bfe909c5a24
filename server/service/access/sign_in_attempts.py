"""How often somebody may fail to sign in: counted for a minute, by who they say they are and where they come from.

A limit must not lock out whom it protects. So nothing that others do at other addresses keeps a client out: where one
client id is tried from everywhere, an address that has not failed with it is still judged. And a client that has got in
from an address before is judged by its secret alone there: 256 bits are not guessed, however often somebody tries.

The counts are this process's own and of bounded number: other workers and servers count for themselves.
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
"""With whatever client ids. Behind a proxy that does not say whom it speaks for, everybody is at one address."""
MOST_OF_ONE_CLIENT = 100
"""From whatever addresses."""
MOST_KEPT = 10_000
LONGEST_NAME = 200


@dataclass(slots=True)
class _Count:
    since: float
    failures: int = 0


@dataclass
class _Counts:
    """Failures by key within their windows; the keys that were met longest ago are forgotten first."""

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
        """Seconds until another attempt is judged; 0 for one that is judged now."""
        count = self.of(key, now)
        return 0.0 if count is None or count.failures < most else count.since + WINDOW_SECONDS - now


@dataclass
class FailedAttempts:
    """Safe to share between threads."""

    clock: Callable[[], float] = time.monotonic
    _pairs: _Counts = field(default_factory=_Counts)
    _clients: _Counts = field(default_factory=_Counts)
    _addresses: _Counts = field(default_factory=_Counts)
    _known: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def compute_wait(self, client: str, address: str) -> float:
        """Seconds for which this client's secret is not looked at from this address; 0 when it is."""
        client, address = client[:LONGEST_NAME], _network(address)
        with self._lock:
            now = self.clock()
            if (client, address) in self._known:
                return 0.0
            pair = (client, address)
            # Where many try this client id, those who have failed with it wait.
            flooded = self._clients.wait(client, now, MOST_OF_ONE_CLIENT)
            by_client = flooded if self._pairs.of(pair, now) else 0.0
            by_pair = self._pairs.wait(pair, now, MOST_OF_ONE_CLIENT_AT_AN_ADDRESS)
            return max(by_client, by_pair, self._addresses.wait(address, now, MOST_AT_AN_ADDRESS))

    def record_failure(self, client: str, address: str) -> None:
        """Client id and secret did not fit."""
        client, address = client[:LONGEST_NAME], _network(address)
        with self._lock:
            now = self.clock()
            self._pairs.add((client, address), now)
            self._clients.add(client, now)
            self._addresses.add(address, now)

    def record_success(self, client: str, address: str) -> None:
        """They did: from there this client waits for nobody any more."""
        pair = (client[:LONGEST_NAME], _network(address))
        with self._lock:
            self._known[pair] = None
            self._known.move_to_end(pair)
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)


def _network(address: str) -> str:
    """Of IPv6 the network: whoever has one address there has them all."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:LONGEST_NAME]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped) if parsed.ipv4_mapped else str(IPv6Address(int(parsed) >> 64 << 64))
