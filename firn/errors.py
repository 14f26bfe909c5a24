"""What can go wrong between a user and a server: each message says what, each hint what to do.

FirnError
├── NotFound             what was named does not exist
├── Refused              the server understood and will not do it as things stand
│   ├── Invalid          what was asked for makes no sense as it stands
│   └── Unauthenticated  the server wants to know who is asking
├── Unreachable          no server answered; nothing was changed
├── Unavailable          the server, or something that it needs, cannot answer now; nothing was changed
│   └── StillRunning     nobody waits any longer for something that goes on
├── OutcomeUnknown       a change was asked for and no answer came: it may or may not have been made
└── ServerFault          a bug of the server, or an answer that is not Firn's
"""

from __future__ import annotations


class FirnError(Exception):
    """Something a user may read. `request_id` finds the request in the server's log.

    `code` is the server's word for the kind of the error, such as `conflict`; None if no server has sent one.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, request_id: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.request_id = request_id
        self.code = code

    @property
    def exit_code(self) -> int:
        """What a command that fails with it ends with."""
        return 1


class NotFound(FirnError):
    """What was named does not exist."""


class Refused(FirnError):
    """The server understood and will not do it as things stand."""


class Invalid(Refused):
    """What was asked for makes no sense as it stands."""

    @property
    def exit_code(self) -> int:
        """Wrong usage."""
        return 2


class Unauthenticated(Refused):
    """The server wants to know who is asking: no token was sent, or one that is not good any more."""


class Unreachable(FirnError):
    """No server answered; nothing was changed."""


class Unavailable(FirnError):
    """The server, or something that it needs, cannot answer now; nothing was changed."""


class StillRunning(Unavailable):
    """Nobody waits any longer for a job or an operation: it goes on."""

    @property
    def exit_code(self) -> int:
        """Neither done nor failed."""
        return 3


class OutcomeUnknown(FirnError):
    """A change was asked for and no answer came: it may or may not have been made."""


class ServerFault(FirnError):
    """A bug of the server, or an answer that is not Firn's."""
