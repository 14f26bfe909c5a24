"""A durable request to publish a table to Hive: how far the server is with it, for people and for the next round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from catalog.jobs.job import JobId


class PublishStep(StrEnum):
    """How far a publish request is."""

    WAITING = "waiting"
    """It waits for another job, for the metastore, or for its next step."""
    MERGING = "merging"
    """A job merges pending changes into base."""
    PUBLISHING = "publishing"
    """A job writes the partitions that differ."""
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRequest:
    """Hive is to be given what was in the table `at` a time: changes `through` a sequence number."""

    at: datetime
    step: PublishStep
    message: str
    """How far it is, and at the end what Hive has, for people."""
    held_back: str = ""
    """Why the publish that runs leaves partitions out; empty where it leaves none out."""
    through: int = 0
    merged: int = 0
    """The watermark when its last merge was asked for: one that moves nothing is not asked for again."""
    job: JobId | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do."""
        return self.step not in (PublishStep.DONE, PublishStep.FAILED)

    def to_json(self) -> dict[str, Any]:
        """As the link keeps it."""
        return {
            "at": self.at.isoformat(),
            "step": str(self.step),
            "message": self.message,
            "held_back": self.held_back,
            "through": self.through,
            "merged": self.merged,
            "job": None if self.job is None else str(self.job),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """As it was kept."""
        job = None if stored["job"] is None else JobId(UUID(stored["job"]))
        at, step = datetime.fromisoformat(stored["at"]), PublishStep(stored["step"])
        return cls(**{**stored, "at": at, "step": step, "job": job})
