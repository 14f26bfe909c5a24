"""How an attempt on a job can end other than well.

JobError
├── LeaseLost            the server gave the job to somebody else, or ended it: stop, change nothing more
├── Refused              nothing was committed, for certain
├── Unknown              a commit was asked for; whether it was applied is for the server to find out
├── Unregistered         the server does not know this optimizer (any more): register again
├── Dismissed            the server wants this optimizer to finish what it holds and leave
├── NotWelcome           the server will not have this optimizer: asking again does not help
└── SparkStopped         this process's Spark has stopped while its Java lives: a new process is needed
"""

from __future__ import annotations


class JobError(Exception):
    """An attempt ends here."""


class LeaseLost(JobError):
    """The lease has ended."""


class Refused(JobError):
    """Nothing was committed, for certain."""


class Unknown(JobError):
    """A commit was sent, and its answer is missing."""


class Unregistered(JobError):
    """The server does not know this optimizer."""


class Dismissed(JobError):
    """The server wants this optimizer to leave."""


class NotWelcome(JobError):
    """The server refuses this optimizer for good."""


class SparkStopped(JobError):
    """No job can be done here any more."""
