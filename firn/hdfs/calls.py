"""Calls to name nodes: one client for each file system, user and process, errors in the name node's words, retries."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from firn.hdfs.configuration import (
    CONF_DIR,
    TICKETS,
    USER,
    choose_limits,
    find_conf_dir,
    read_configuration,
    split_location,
)
from firn.hdfs.errors import NameNodeBusy, translate
from firn.hdfs.mounts import resolve_location

if TYPE_CHECKING:
    from hdfs_native import Client

RETRY_SECONDS = 5.0
"""How long a call waits for a name node to leave safe mode or become active before it fails."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 1.0
_NEEDS_EXTRA = "HDFS needs the Python package hdfs-native: pip install 'firn[hdfs]'"
T = TypeVar("T")

_clients: dict[tuple[int | str | None, ...], Client] = {}
_lock = threading.Lock()


def connect(location: str) -> tuple[Client, str]:
    """The client of a location's file system, and the path in it; for ViewFS those of the HDFS behind it.

    ImportError names the missing package. A client has threads, which a fork does not copy. So the process belongs to
    the key.
    """
    root, path = split_location(resolve_location(location, find_conf_dir()))
    key = (os.getpid(), root, *map(os.environ.get, (CONF_DIR, USER, TICKETS)))
    client = _clients.get(key)
    if client is None:
        with _lock:
            client = _clients.get(key)
            if client is None:
                client = _clients[key] = call(lambda: make_client(root, find_conf_dir()))
    return client, path


def make_client(root: str, conf_dir: Path | None) -> Client:
    """Make a client. It connects with the first call."""
    try:
        from hdfs_native import Client  # noqa: PLC0415 - an extra, whose import takes a tenth of a second
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_NEEDS_EXTRA, name=error.name) from error
    properties = read_configuration(conf_dir)
    return Client(root, {**properties, **choose_limits(properties)}, None if conf_dir is None else str(conf_dir))


def call(
    function: Callable[[], T],
    *,
    seconds: float = RETRY_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call the client; OSError or ValueError in the name node's words.

    A name node that is busy is asked again until `seconds` have passed: it has refused before it did anything.
    """
    until, pause = clock() + seconds, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return function()
        except BaseException as error:
            refusal = translate(error)
            if refusal is None:
                raise
            if not isinstance(refusal, NameNodeBusy) or clock() + pause > until:
                raise refusal from None
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def iterate(make: Callable[[], Iterator[T]]) -> list[T]:
    """All items of one of the client's iterators, which calls while it is read."""
    return call(lambda: list(make()))
