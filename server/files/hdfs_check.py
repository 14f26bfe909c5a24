"""Checks of HDFS clusters: every hop to a directory, and what the directory allows, by files that it writes there."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from catalog.ports.hadoop import FileSystemStatus, Finding, Hop, Severity
from firn.hdfs import access, files
from firn.hdfs.configuration import find_conf_dir, read_configuration, split_location
from firn.hdfs.erasure_coding import is_erasure_coded
from firn.hdfs.files import HdfsReader, HdfsWriter
from firn.hdfs.mounts import find_mount, list_name_nodes, resolve_location
from server.files.deadlines import Deadlines, find_store
from server.files.hdfs_refusals import ADVICE, choose_hint, find_hop, read_words
from server.files.read_limits import LISTING_SECONDS

PING_SECONDS = 10.0
CONNECT_SECONDS = 3.0
SLOW_CLOSE_SECONDS = 0.4
"""The client waits half a second if a block was not reported in time; a close without that takes a tenth of this."""
NEARLY_FULL = 0.9
_TRIES = 4
_PROBE = ".firn-probe-"
_SMALLEST_DEPTH = 2
T = TypeVar("T")
_NUM_COMMITTED = "dfs.namenode.file.close.num-committed-allowed"


class HdfsFileSystems:
    """Implements `catalog.ports.hadoop.FileSystems`."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def select(self, locations: Collection[str]) -> list[str]:
        return [location for location in locations if files.is_on_hdfs(location)]

    def get_address(self, location: str) -> str:
        try:
            return find_mount(location, find_conf_dir())
        except ValueError:  # the cluster's files are broken, which `ping` and `examine` say
            return split_location(location)[0]

    def can_rename(self, location: str, directory: str) -> bool:
        return files.can_rename(location, directory)

    def ping(self, location: str) -> FileSystemStatus:
        nodes, error = list[tuple[str, int]](), None
        try:
            nodes = list_name_nodes(read_configuration(find_conf_dir()), location)
            self._run(location, lambda: self._look(location), PING_SECONDS)
        except (OSError, ValueError, ImportError) as raised:
            error = read_words(raised)
        return FileSystemStatus(
            address=self.get_address(location),
            name_nodes=tuple(f"{host}:{port}" for host, port in nodes),
            user=access.get_user(),
            error=error,
        )

    def examine(self, location: str) -> Iterator[Finding]:
        nodes: list[tuple[str, int]] = []
        for finding in self._find_name_nodes(location, nodes):
            yield finding
            if finding.severity is Severity.FAILED:
                return
        connections = [self._connect(node) for node in nodes]
        if all(finding.severity is not Severity.OK for finding in connections):
            yield from (replace(finding, severity=Severity.FAILED) for finding in connections)
            return
        yield from connections
        try:
            yield from self._try_directory(location)
        except (OSError, ValueError) as error:
            yield _explain(location, error)
            return
        yield from self._check_quotas(location)

    def _find_name_nodes(self, location: str, nodes: list[tuple[str, int]]) -> Iterator[Finding]:
        directory, address = find_conf_dir(), self.get_address(location)
        try:
            nodes += list_name_nodes(read_configuration(directory), location)
        except ValueError as error:
            yield _fail(Hop.CONFIGURATION, address, str(error))
            return
        where = "no directory, because HADOOP_CONF_DIR is not set" if directory is None else str(directory)
        if not nodes:
            yield _fail(Hop.CONFIGURATION, address, f"the cluster's files name no name node of it (read: {where})")
            return
        named = ", ".join(f"{host}:{port}" for host, port in nodes)
        yield Finding(hop=Hop.CONFIGURATION, severity=Severity.OK, location=address, message=f"name nodes: {named}")

    def _connect(self, node: tuple[str, int]) -> Finding:
        """Resolve a name node's host and connect to it. One of several may be down: a warning."""
        (host, port), at = node, f"{node[0]}:{node[1]}"
        try:
            self._run(f"dns://{host}/", lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), PING_SECONDS)
        except (OSError, UnicodeError) as error:
            message = f"the host {host} is unknown: {read_words(error)}"
            hint = "correct the name node's address, or DNS and /etc/hosts of this machine"
            return Finding(hop=Hop.DNS, severity=Severity.WARNING, location=at, message=message, hint=hint)
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            hint = "check that the name node runs, its address, and firewalls"
            message = f"nothing answers: {read_words(error)}"
            return Finding(hop=Hop.NAME_NODE, severity=Severity.WARNING, location=at, message=message, hint=hint)
        return Finding(hop=Hop.NAME_NODE, severity=Severity.OK, location=at, message="accepts connections")

    def _try_directory(self, location: str) -> Iterator[Finding]:
        """Write files below the nearest existing directory, read one, and delete all."""
        here = self._run(location, lambda: self._look(location), PING_SECONDS)
        rights = self._run(location, lambda: access.read_rights(here), PING_SECONDS)
        probe = f"{here.rstrip('/')}/{_PROBE}{secrets.token_hex(8)}"
        try:
            closes = self._run(location, lambda: _write_files(probe), LISTING_SECONDS)
            message = f"{access.get_user()} may write ({rights.owner}:{rights.group}, mode {rights.mode:o})"
            yield Finding(hop=Hop.PERMISSION, severity=Severity.OK, location=here, message=message)
            if self._run(location, lambda: _is_erasure_coded(probe), PING_SECONDS):
                yield _warn_of_erasure_coding(here)
            yield _judge_closes(here, closes)
        finally:
            with contextlib.suppress(OSError, ValueError):
                self._run(location, lambda: files.delete(probe, recursive=True), PING_SECONDS)

    def _check_quotas(self, location: str) -> Iterator[Finding]:
        """Compare the quotas of a directory and the one above it; never of one directly below the root."""
        here = self._run(location, lambda: self._look(location), PING_SECONDS)
        above = here.rpartition("/")[0]
        deep_enough = split_location(above)[1].strip("/").count("/") + 1 >= _SMALLEST_DEPTH
        for directory in [here, *([above] if deep_enough else [])]:
            try:
                usage = self._run(location, lambda at=directory: files.measure_usage(at), LISTING_SECONDS)  # type: ignore[misc]
            except OSError as error:
                message = f"the quotas are unknown: {read_words(error)}"
                yield Finding(hop=Hop.QUOTA, severity=Severity.WARNING, location=directory, message=message)
            else:
                yield _judge_usage(directory, usage)

    def _look(self, location: str) -> str:
        """The nearest directory at or above a location that exists. The root of an HDFS always does.

        Above a mount point of ViewFS whose directory is missing, it is one of the HDFS behind it.
        """
        here, mount = location.rstrip("/"), self.get_address(location)
        while True:
            try:
                files.get_status(here)
            except FileNotFoundError:
                behind = resolve_location(here, find_conf_dir()).rstrip("/") if here == mount else here
                here = behind.rpartition("/")[0]
            else:
                return here

    def _run(self, location: str, function: Callable[[], T], seconds: float) -> T:
        return self._deadlines.run(f"check {find_store(location)}", function, seconds=seconds)


def _write_files(directory: str) -> list[float]:
    """Write and read small files; returns the seconds that each took to close."""
    files.make_directories(directory)
    seconds = []
    for number in range(_TRIES):
        file = HdfsWriter(f"{directory}/{number}")
        try:
            file.write(b"Firn checks whether it may write here." * 100)
            before = time.monotonic()
            file.close()
        finally:
            file.discard()
        seconds.append(time.monotonic() - before)
    HdfsReader(f"{directory}/0").read()
    return seconds


def _is_erasure_coded(directory: str) -> bool:
    """False also if the cluster refuses the file that would tell, for example because it allows only one replica."""
    try:
        return is_erasure_coded(directory)
    except OSError:
        return False


def _warn_of_erasure_coding(location: str) -> Finding:
    """The client does not say which policy it is, and writes the same parity for all of them."""
    path = split_location(location)[1]
    return Finding(
        hop=Hop.ERASURE_CODING,
        severity=Severity.WARNING,
        location=location,
        message="files are erasure coded, and the client supports Reed-Solomon policies (RS-…) only",
        hint=f"see hdfs ec -getPolicy -path {path}; if it is XOR or RS-LEGACY, {ADVICE[Hop.ERASURE_CODING]}",
    )


def _judge_closes(location: str, seconds: list[float]) -> Finding:
    slow = [time_ for time_ in seconds if time_ >= SLOW_CLOSE_SECONDS]
    message = f"closing a file takes {max(seconds) * 1000:.0f} ms"
    if not slow:
        return Finding(hop=Hop.SLOW_CLOSE, severity=Severity.OK, location=location, message=message)
    hint = f"set {_NUM_COMMITTED} to 1 on the name node; it helps with two data nodes or more"
    message = f"{message} ({len(slow)} of {len(seconds)} files), and each commit closes several"
    return Finding(hop=Hop.SLOW_CLOSE, severity=Severity.WARNING, location=location, message=message, hint=hint)


def _judge_usage(location: str, usage: files.Usage) -> Finding:
    full = [
        f"{used:,} of {quota:,} {unit}"
        for used, quota, unit in (
            (usage.names, usage.name_quota, "names"),
            (usage.space, usage.space_quota, "bytes with replicas"),
        )
        if quota is not None and used >= NEARLY_FULL * quota
    ]
    if full:
        message = f"the quota is nearly used up: {', '.join(full)}"
        hint = ADVICE[Hop.QUOTA]
        return Finding(hop=Hop.QUOTA, severity=Severity.WARNING, location=location, message=message, hint=hint)
    has_quota = usage.name_quota is not None or usage.space_quota is not None
    message = "the quota has room" if has_quota else "no quota"
    return Finding(hop=Hop.QUOTA, severity=Severity.OK, location=location, message=message)


def _explain(location: str, error: OSError | ValueError) -> Finding:
    """Name the hop at which a call has failed."""
    return Finding(
        hop=find_hop(error),
        severity=Severity.FAILED,
        location=location,
        message=read_words(error),
        hint=choose_hint(error),
    )


def _fail(hop: Hop, location: str, message: str) -> Finding:
    return Finding(hop=hop, severity=Severity.FAILED, location=location, message=message, hint=ADVICE.get(hop))
