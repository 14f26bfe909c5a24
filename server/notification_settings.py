"""The settings of notifications and of the mail server."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr, model_validator

from server.settings_group import Group

_SENDER = re.compile(r"[^\s@<>,;:\"]{1,64}@[A-Za-z0-9.-]{1,253}")


class MailSecurity(StrEnum):
    """How the server reaches the mail server."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class NotificationSettings(Group):
    """Notifications of problems; see docs/notifications.md."""

    console: str | None = Field(
        default=None, description="Address of the console for links in messages, such as https://firn.example.com."
    )
    seconds: PositiveFloat = Field(default=15, description="Interval of looking for problems and sending messages.")
    event_seconds: PositiveFloat = Field(default=2, description="Interval of sending table events.")
    days: PositiveInt = Field(default=30, description="Retention of the history of messages.")

    @model_validator(mode="after")
    def _is_an_address(self) -> Self:
        if self.console is not None:
            parts = urlsplit(self.console)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{self.console!r} is no http:// or https:// address")
        return self


class MailSettings(Group):
    """The mail server that sends mails of notifications."""

    host: str | None = Field(default=None, description="SMTP server; without it no rule can send mails.")
    port: int = Field(default=587, ge=1, le=65_535, description="Its port.")
    security: MailSecurity = Field(
        default=MailSecurity.STARTTLS, description="`starttls`, `tls`, or `none` for a connection without encryption."
    )
    username: str | None = Field(default=None, description="User name at the mail server.")
    password: SecretStr | None = Field(default=None, description="Its password.")
    sender: str | None = Field(default=None, description="Address of the sender, such as firn@example.com.")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.host is None) != (self.sender is None):
            raise ValueError("mail.host and mail.sender belong together")
        if self.sender is not None and _SENDER.fullmatch(self.sender) is None:
            raise ValueError(f"mail.sender {self.sender!r} is no address of a mailbox")
        if (self.username is None) != (self.password is None):
            raise ValueError("mail.username and mail.password belong together")
        if self.username is not None and self.security is MailSecurity.NONE:
            raise ValueError("mail.password would go over the network without encryption: set mail.security")
        return self
