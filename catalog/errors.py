"""What can go wrong, said in the domain's words; nothing here knows of HTTP.

CatalogError                    a caller may be told about it; nothing was changed
├── NotFound
│   ├── NoSuchCatalog
│   ├── NoSuchNamespace
│   ├── NoSuchTable
│   ├── NoSuchView
│   ├── NoSuchPlan              a scan's plan is over, cancelled, or never was
│   └── NoSuchPlanTask          the same of one of its tasks
├── Conflict
│   ├── AlreadyExists
│   ├── NamespaceNotEmpty
│   ├── RequirementFailed       the table is not as the commit requires it to be: read again, try again
│   │   └── OtherTable          it is another table than the one that the commit was made for
│   ├── StaleDefinition         a new version of a pipeline changes what a built table is
│   ├── PipelineCycle           a table of a pipeline would be computed from itself
│   ├── CommitRefused           a keyed table's own rules refuse the commit: doing it again will not help
│   ├── Dismissed               an optimizer was told to leave: it is given nothing any more
│   ├── IllegalMove             a job cannot go from this status to that one
│   └── StaleReport             an earlier attempt spoke after losing its lease
├── Unauthenticated             nobody knows who is asking
│   └── TokenEnded              it was known until a moment ago
├── Forbidden
│   ├── LeaseLost               the lease a commit came with is not the current one
│   └── Protected               its owner has protected it against being dropped
├── Invalid
│   ├── Contradiction           each half makes sense, both together do not
│   ├── InvalidDefinition       a pipeline's definition contradicts itself
│   ├── LocationRefused         a directory or file lies where the table may have none: catalog.locations.location_rule
│   ├── DuplicateBatch          this writer's batch is in the table already
│   ├── WriterFenced            a newer copy of the writer has registered, or somebody ended the writer
│   └── PositionMoved           the commit does not begin at the position that the table has
└── Unavailable                 asking again is safe
    └── Denied                  the storage answers, and does not let this server at this one place
CommitUnknown                   outside the tree: nobody may handle it as a failure
"""

from __future__ import annotations

from datetime import datetime


class CatalogError(Exception):
    """A refusal that a caller may read: `message` says what and where, `hint` says what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotFound(CatalogError):
    """The named object does not exist."""


class NoSuchCatalog(NotFound):
    """No catalog of this name."""


class NoSuchNamespace(NotFound):
    """No namespace of this name."""


class NoSuchTable(NotFound):
    """No table of this name."""


class NoSuchView(NotFound):
    """No view of this name."""


class NoSuchPlan(NotFound):
    """No plan of a scan with this id on this table."""


class NoSuchPlanTask(NotFound):
    """No task of a plan on this table."""


class Conflict(CatalogError):
    """The present state of the catalog does not allow the request."""


class AlreadyExists(Conflict):
    """Something with this name exists already."""


class NamespaceNotEmpty(Conflict):
    """A namespace with content cannot be dropped."""


class RequirementFailed(Conflict):
    """A commit's requirement does not hold for the current metadata."""


class OtherTable(RequirementFailed):
    """The table of this name does not have the UUID that the commit requires."""


class CommitRefused(Conflict):
    """A rule of keyed or linked tables refuses this commit."""


class StaleDefinition(Conflict):
    """A new version of a pipeline changes the rows or the key of a table that is built."""


class PipelineCycle(Conflict):
    """A table of a pipeline would be computed from itself."""


class Dismissed(Conflict):
    """An optimizer asks for work after the server has told it to stop."""


class IllegalTransition(Conflict):
    """A job cannot go from this status to that one."""

    def __init__(self, job_id: object, current: str, requested: str) -> None:
        super().__init__(f"job {job_id} is {current}, it cannot become {requested}")


class StaleReport(Conflict):
    """An attempt without the current lease has sent a report."""

    def __init__(self, job_id: object, *, reported: int, current: int) -> None:
        super().__init__(f"job {job_id} is at attempt {current}, attempt {reported} reported")


class Unauthenticated(CatalogError):
    """The request has no valid token."""


class TokenEnded(Unauthenticated):
    """The token has expired or was revoked."""


class Forbidden(CatalogError):
    """The caller lacks the privilege."""


class LeaseLost(Forbidden):
    """The lease of the request is not the current lease of its job."""


class Protected(Forbidden):
    """The object of a drop, or an object in it, is protected."""


class Invalid(CatalogError):
    """The request is invalid in itself."""


class Contradiction(Invalid):
    """The request names one thing in two ways that exclude each other."""


class InvalidDefinition(Invalid):
    """A definition of a pipeline contradicts itself; the message names file and line."""


class LocationRefused(Invalid):
    """This table may not have a directory or file at this location. The message names no other table."""


class DuplicateBatch(Invalid):
    """The writer's batch was committed before. For the writer this is success."""

    def __init__(self, writer: str, batch: str, snapshot_id: int) -> None:
        super().__init__(f"batch {batch!r} of writer {writer!r} was committed before, in snapshot {snapshot_id}")
        self.snapshot_id = snapshot_id


class WriterFenced(Invalid):
    """The commit is of an earlier epoch of its writer, or somebody has ended the writer for good.

    Not a Conflict: Java's clients repeat a commit after a 409.
    """

    def __init__(self, writer: str, epoch: int, newest: int, *, at: datetime, ended_at: datetime | None) -> None:
        if ended_at is not None:
            message = f"writer {writer!r} was fenced for good at {ended_at:%Y-%m-%d %H:%M:%S} UTC"
        else:
            message = (
                f"epoch {epoch} of writer {writer!r} is fenced: epoch {newest} began at {at:%Y-%m-%d %H:%M:%S} UTC"
            )
        super().__init__(message, hint="stop this copy of the writer")


class PositionMoved(Invalid):
    """The commit does not begin at the position up to which the table has the records of the writer's source.

    Not a Conflict, for the reason of WriterFenced.
    """

    def __init__(self, writer: str, start: str, stored: str, *, repeated_in: int | None) -> None:
        message = f"the commit of writer {writer!r} begins at position {start}, but the table is at {stored}"
        if repeated_in is not None:
            message = f"{message}: snapshot {repeated_in} has brought the records up to there"
        super().__init__(message, hint="register the writer again, and go on from the position in the answer")


class Unavailable(CatalogError):
    """A needed service does not answer. Nothing has changed, and a repeated request is safe."""


class Denied(Unavailable):
    """The server may not read a file or directory, or its disk has lost the bytes. Other files are readable."""


class CommitUnknown(Exception):
    """A change may or may not have been made. Nothing may be cleaned up or reported as failed."""
