"""The net changes of a keyed table, for people: few rows, read by a child process (docs/changes.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from catalog.errors import Invalid, Unavailable
from catalog.history.change_feed import FeedCommit
from catalog.history.commit import CommitEvent
from catalog.names import RelationId
from catalog.ports.images import BuildTooLarge, FeedReader
from catalog.ports.store import Database
from firn.protocol.answers.changes import ChangePlan
from firn.protocol.tasks.feed import FeedRows, FeedTask
from server.service.images.pair import build_image_rule
from server.service.tables.change_feeds import PlannedFeed
from server.service.tables.metadata_files import MetadataFiles

MOST_ROWS = 1_000
MOST_CHARACTERS = 2_000_000
MOST_WAITING = 4
"""Requests that may wait for the reader at one time; each keeps a thread of the server."""


@dataclass(frozen=True)
class ChangedRows:
    """Reads changes of planned feeds."""

    database: Database
    metadata: MetadataFiles
    reader: FeedReader
    most_bytes: int
    file_io: Mapping[str, str]
    _waiting: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_WAITING))

    def read(self, planned: PlannedFeed, plan: ChangePlan, *, most_rows: int) -> FeedRows:
        """Read the changes of a plan, at most so many.

        Invalid if the files are too large. Unavailable if too many others wait.
        """
        name, pin = planned.pin.relation.name, planned.pin
        with self.database.reading() as uow:
            rule = build_image_rule(uow, self.database, self.metadata.files, pin)
        task = FeedTask(
            base_metadata=pin.base_store.metadata_location or "",
            change_metadata=pin.change_store.metadata_location or "",
            plan=plan,
            most_rows=min(most_rows, MOST_ROWS),
            most_characters=MOST_CHARACTERS,
            most_bytes=self.most_bytes,
            file_io=dict(self.file_io),
        )
        try:
            with self.turn():
                return self.reader.read_feed(task, rule.check)
        except BuildTooLarge as error:
            raise Invalid(
                f"too much has changed in {name} after version {plan.since.version} to be shown: {error.message}",
                hint=f"Choose versions that are closer together, or run `firn changes {name} "
                f"--since {plan.since.version}`, which reads the files itself.",
            ) from error

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the reader; Unavailable if too many others do."""
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("the server is reading rows for others", hint="Try again in a few seconds.")
        try:
            yield
        finally:
            self._waiting.release()

    def find_events(self, store_id: RelationId, commits: Sequence[FeedCommit]) -> Mapping[int, CommitEvent]:
        """The history's entries of some commits to a store, by snapshot. Of old commits there may be none."""
        with self.database.reading() as uow:
            return uow.events.of_snapshots(store_id, [commit.snapshot_id for commit in commits])

    def stop(self) -> None:
        """End the child process."""
        self.reader.stop()
