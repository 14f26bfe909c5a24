"""Launches: how they are remembered, and how they are carried out."""

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
    """The database's memory of launches; errors as in catalog.ports.store."""

    def settings(self) -> Sequence[GroupLaunch]:
        """Of all groups for which something was set."""

    def set(self, settings: GroupLaunch) -> None: ...
    def unset(self, group: GroupName) -> None: ...
    def put(self, launched: LaunchRecord) -> None: ...
    def unfinished(self) -> Sequence[LaunchRecord]:
        """Those that are not over, oldest first."""

    def newest(self, group: GroupName, limit: int) -> Sequence[LaunchRecord]:
        """Newest first."""

    def find(self, launch_id: LaunchId) -> LaunchRecord | None: ...
    def remove_ended_before(self, moment: datetime) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A process that was started here."""

    exit_status: int | None
    """None while it runs."""
    resident: int | None
    last_words: str


class Launcher(Protocol):
    """Starts processes on this machine; they end when it does."""

    def start(self, launch_id: LaunchId, command: Command) -> Process:
        """Unavailable when it cannot be started; nothing of it runs then."""

    def look(self, launch_id: LaunchId) -> Seen | None:
        """None for one that was not started here."""

    def kill(self, launch_id: LaunchId) -> None:
        """End it and all that it has started, at once."""

    def kill_stray(self, process: Process) -> bool:
        """The same for one that an earlier server has left on this machine; False when it is not there."""

    def is_gone(self, process: Process) -> bool:
        """Whether it was a process of this machine, and is none any more."""

    def forget(self, launch_id: LaunchId) -> None:
        """It has ended, and that is noted: its log is kept among the newest only."""

    def stop_all(self) -> None:
        """End all in order, and wait; what takes too long is killed."""
