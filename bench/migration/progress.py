"""How far a step of the rehearsal is, on standard error: results alone go to standard output."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import firn
from bench.migration.thrift_counter import CallCounter
from firn.errors import FirnError

EVERY_SECONDS = 10.0


def print_progress(line: str) -> None:
    """Show a line at once."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def showing_progress(step: str, client: firn.Client, counter: CallCounter) -> Iterator[None]:
    """Show every ten seconds how far a step is, while the block runs."""
    ended, began = threading.Event(), time.monotonic()

    def show() -> None:
        while not ended.wait(EVERY_SECONDS):
            seconds, calls = time.monotonic() - began, counter.calls.total()
            print_progress(f"{step}: {seconds:.0f} s, {calls:,} calls to the metastore so far{_describe_wave(client)}")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _describe_wave(client: firn.Client) -> str:
    try:
        waves = client.transport.get("/catalogs/lake/hive/waves?limit=1")
    except FirnError:
        return ""
    running = [wave for wave in waves["items"] if wave["unfinished"]]
    return "".join(f", {wave['tables'] - wave['unfinished']:,} of {wave['tables']:,} tables" for wave in running)
