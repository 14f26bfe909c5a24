"""Notifications: the problems that rules watch for, the channels of messages, and the requests about rules."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from firn.protocol.base import Request


class ProblemKind(StrEnum):
    """What a rule can watch for: problems, or the table events of EVENT_KINDS."""

    JOB_FAILED = "job_failed"
    JOB_UNKNOWN = "job_unknown"
    """A job whose commit the server could not confirm yet."""
    OPTIMIZER_LOST = "optimizer_lost"
    STREAM_STOPPED = "stream_stopped"
    OUT_OF_SYNC = "out_of_sync"
    """A table and its Hive table differ, and no sync can resolve that."""
    DUPLICATE_KEYS = "duplicate_keys"
    NOT_FRESH = "not_fresh"
    """A table of a pipeline is older than its target."""
    MIGRATION_ENDED = "migration_ended"
    """An upgrade, downgrade, import or wave has ended or stopped. It is an event: nothing resolves it."""
    TABLE_CREATED = "table_created"
    """A table or view was created, registered or restored."""
    TABLE_COMMITTED = "table_committed"
    TABLE_RENAMED = "table_renamed"
    TABLE_DROPPED = "table_dropped"
    JOB_ENDED = "job_ended"
    """A job on a table has ended, with or without success."""


EVENT_KINDS = (
    ProblemKind.TABLE_CREATED,
    ProblemKind.TABLE_COMMITTED,
    ProblemKind.TABLE_RENAMED,
    ProblemKind.TABLE_DROPPED,
    ProblemKind.JOB_ENDED,
)
"""Table events. A rule has either these or problems, because they are delivered differently."""


class Channel(StrEnum):
    """How a rule sends its messages."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    MAIL = "mail"


class NotificationState(StrEnum):
    """How far a message is."""

    WAITING = "waiting"
    SENT = "sent"
    SILENCED = "silenced"
    FAILED = "failed"
    """The server has given up; somebody may retry it."""


class RuleRequest(Request):
    """A new rule. The server keeps the address and the secret encrypted, and never shows them again."""

    name: str = Field(description="Name of the rule.")
    kinds: list[ProblemKind] = Field(description="Problems that it watches for, or table events.")
    channel: Channel = Field(description="How it sends messages.")
    catalog: str | None = Field(default=None, description="Only problems of this catalog; all if unset.")
    url: SecretStr | None = Field(default=None, description="Address of the webhook; `webhook` and `slack` need it.")
    secret: SecretStr | None = Field(
        default=None, description="Secret that signs webhooks, `whsec_` and base64; the server creates one if unset."
    )
    recipients: list[str] = Field(default=[], description="Addresses that get mails; `mail` needs some.")
    resolved: bool = Field(default=True, description="Whether it also sends a message when a problem has ended.")
    tables: list[str] = Field(
        default=[], description="Only events of tables whose names match a pattern, such as `shop.*`; all if empty."
    )


class RuleChange(Request):
    """New values of a rule; those that are unset stay."""

    kinds: list[ProblemKind] | None = Field(default=None, description="Problems that it watches for.")
    resolved: bool | None = Field(default=None, description="Whether it sends a message when a problem has ended.")


class SilenceRequest(Request):
    """A silence of a rule, or of one subject in it."""

    minutes: int = Field(ge=0, le=525_600, description="How long the rule is silent from now on; 0 ends a silence.")
    subject: str | None = Field(default=None, description="Only messages about this table, optimizer or operation.")
