"""Mails by an SMTP server that the settings name, bounded in time."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import format_datetime
from threading import Event, Thread

from catalog.errors import Invalid, Unavailable
from catalog.notifications.message import Message, mail_subject, mail_text

SECONDS = 15.0
"""How long the delivery of one mail may take."""
_READ_SECONDS = 5.0
_WATCH_SECONDS = 0.1
_PERMANENT = 500
_HINT = "check the settings mail.*"


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """An SMTP server and the sender of the mails."""

    host: str
    port: int
    sender: str
    security: str = "starttls"
    """`starttls`, `tls`, or `none`."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    seconds: float = SECONDS

    def send(self, recipients: Sequence[str], message: Message) -> None:
        """Send one mail to all recipients. Unavailable if it may be accepted later, Invalid if it never will."""
        mail = self._build(recipients, message)
        try:
            with self._connected() as smtp:
                refused = smtp.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            raise self._explain_recipients(error.recipients) from error
        except smtplib.SMTPResponseException as error:
            raise self._explain(error) from error
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise Unavailable(
                f"{self._place} does not answer: {str(error) or type(error).__name__}", hint=_HINT
            ) from error
        if refused:  # the others have got it: it is not sent again
            names = ", ".join(sorted(refused))
            raise Invalid(f"{self._place} refuses the recipients {names}; the others got the mail")

    def _build(self, recipients: Sequence[str], message: Message) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self.sender
        mail["To"] = ", ".join(recipients)
        mail["Subject"] = mail_subject(message)
        mail["Date"] = format_datetime(message.at)
        # The same in each attempt: mail programs show repeats once.
        mail["Message-ID"] = f"<{message.id}@{self.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(mail_text(message))
        return mail

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        context, timeout = ssl.create_default_context(), min(_READ_SECONDS, self.seconds)
        # Without a host, so that it does not connect before somebody watches the time.
        smtp = (
            smtplib.SMTP_SSL(timeout=timeout, context=context)
            if self.security == "tls"
            else smtplib.SMTP(timeout=timeout)
        )
        smtp._host = self.host  # type: ignore[attr-defined]  # noqa: SLF001 -- TLS compares it with the certificate
        done = Event()
        Thread(target=_end_late, args=(smtp, done, self.seconds), daemon=True).start()
        try:
            smtp.connect(self.host, self.port)
            if self.security == "starttls":
                smtp.starttls(context=context)
            if self.username is not None:
                smtp.login(self.username, self.password or "")
            yield smtp
            with suppress(smtplib.SMTPException, OSError):
                smtp.quit()
        finally:
            done.set()
            smtp.close()

    @property
    def _place(self) -> str:
        return f"the mail server {self.host}:{self.port}"

    def _explain(self, error: smtplib.SMTPResponseException) -> Unavailable | Invalid:
        text = f"{self._place} answers {error.smtp_code} {_decode(error.smtp_error)}"
        is_final = error.smtp_code >= _PERMANENT and isinstance(error, smtplib.SMTPDataError)
        return Invalid(text) if is_final else Unavailable(text, hint=_HINT)

    def _explain_recipients(self, refused: dict[str, tuple[int, bytes]]) -> Unavailable | Invalid:
        codes = [code for code, _ in refused.values()]
        reason = next((_decode(text) for _, text in refused.values()), "")
        text = f"{self._place} refuses all recipients: {reason}"
        return Invalid(text) if min(codes, default=0) >= _PERMANENT else Unavailable(text)


def _end_late(smtp: smtplib.SMTP, done: Event, seconds: float) -> None:
    """End the connection after this time, also of a mail server that sends one byte after the other."""
    if done.wait(seconds):
        return
    while not done.wait(_WATCH_SECONDS):  # there may be no connection yet
        if (connection := smtp.sock) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _decode(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())[:200]
