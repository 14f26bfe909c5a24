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
│   ├── LocationRefused         a directory or file lies where the table may have none: catalog.locations.location_rule
│   └── DuplicateBatch          this writer's batch is in the table already
└── Unavailable                 asking again is safe
    └── Denied                  the storage answers, and does not let this server at this one place
CommitUnknown                   outside the tree: nobody may handle it as a failure
"""

from __future__ import annotations


class CatalogError(Exception):
    """A refusal that a caller may read: `message` says what and where, `hint` says what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotFound(CatalogError):
    """What was named does not exist."""


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
    """The state of the catalog does not allow it now."""


class AlreadyExists(Conflict):
    """The name is taken."""


class NamespaceNotEmpty(Conflict):
    """A namespace that still holds something cannot be dropped."""


class RequirementFailed(Conflict):
    """A commit's requirement does not hold on the current metadata."""


class OtherTable(RequirementFailed):
    """A table has the name, but not the UUID that a commit requires."""


class CommitRefused(Conflict):
    """A keyed table's own rules refuse this commit."""


class Dismissed(Conflict):
    """An optimizer asks for work after it was told to leave."""


class IllegalTransition(Conflict):
    """A job cannot go from this status to that one."""

    def __init__(self, job_id: object, now: str, wanted: str) -> None:
        super().__init__(f"job {job_id} is {now}, it cannot become {wanted}")


class StaleReport(Conflict):
    """An attempt that no longer holds the lease has spoken."""

    def __init__(self, job_id: object, *, reported: int, current: int) -> None:
        super().__init__(f"job {job_id} is at attempt {current}, attempt {reported} reported")


class Unauthenticated(CatalogError):
    """Nobody knows who is asking: no token, or one that is not good (any more)."""


class TokenEnded(Unauthenticated):
    """The token was a good one, but has expired or was revoked."""


class Forbidden(CatalogError):
    """The caller may not do this."""


class LeaseLost(Forbidden):
    """The lease that a request came with is not the current one of its job."""


class Protected(Forbidden):
    """What was to be dropped, or something in it, is protected."""


class Invalid(CatalogError):
    """What was asked for makes no sense as it stands."""


class Contradiction(Invalid):
    """What was asked for names one thing in two ways that exclude each other."""


class LocationRefused(Invalid):
    """A directory or file lies where this table may not have it. The message names no other table and not its place."""


class DuplicateBatch(Invalid):
    """A writer's batch has been committed before; for the writer this is success."""

    def __init__(self, writer: str, batch: str, snapshot_id: int) -> None:
        super().__init__(f"batch {batch!r} of writer {writer!r} was committed before, in snapshot {snapshot_id}")
        self.snapshot_id = snapshot_id


class Unavailable(CatalogError):
    """Something needed does not answer; nothing was changed and asking again is safe."""


class Denied(Unavailable):
    """A file or directory that this server may not read, or whose bytes its disk has lost; others can be had."""


class CommitUnknown(Exception):
    """A change may or may not have been made: nothing may be cleaned up or reported as failed."""
