"""Ports of launches: their records in the database, and the processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.command import Command
from catalog.launch.record import GroupLaunch, LaunchRecord, Process
from catalog.launch.settings import LaunchId


class Launches(Protocol):
    """The database's launches; errors as in catalog.ports.store."""

    def settings(self) -> Sequence[GroupLaunch]:
        """The settings of all groups that have any."""

    def set(self, settings: GroupLaunch) -> None: ...
    def unset(self, group: GroupName) -> None: ...
    def put(self, launched: LaunchRecord) -> None: ...
    def unfinished(self) -> Sequence[LaunchRecord]:
        """Launches that are not over, oldest first."""

    def newest(self, group: GroupName, limit: int) -> Sequence[LaunchRecord]:
        """Newest first."""

    def find(self, launch_id: LaunchId) -> LaunchRecord | None: ...
    def remove_ended_before(self, moment: datetime) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The state of a process that this server started."""

    exit_status: int | None
    """None while it runs."""
    resident: int | None
    last_words: str


class Launcher(Protocol):
    """Starts processes on this machine; they end with the server."""

    def start(self, launch_id: LaunchId, command: Command) -> Process:
        """Start the process; Unavailable if that fails, and then nothing of it runs."""

    def inspect(self, launch_id: LaunchId) -> Seen | None:
        """The state of the process; None if this server did not start it."""

    def kill(self, launch_id: LaunchId) -> None:
        """Kill the process and all its children at once."""

    def kill_stray(self, process: Process) -> bool:
        """Kill a process that an earlier server left on this machine; False if it does not exist."""

    def is_gone(self, process: Process) -> bool:
        """Whether it was a process of this machine and has ended."""

    def discard(self, launch_id: LaunchId) -> None:
        """Delete the process's state after its end is recorded. Its log stays only among the newest."""

    def stop_all(self) -> None:
        """End all processes and wait; kill those that take too long."""
