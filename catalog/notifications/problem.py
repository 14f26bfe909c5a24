"""Problems that rules report. A rule compares the present problems with those that it has reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.notifications.rule import Rule
from firn.protocol.notifications import ProblemKind

LONGEST_KEY = 255
LONGEST_SUBJECT = 1_024
LONGEST_TITLE = 300
LONGEST_MESSAGE = 4_000
_CUT = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem that goes on now. The texts come from users and engines: see `clean_text`."""

    kind: ProblemKind
    key: str
    """Names the problem among those of its kind for as long as it goes on, such as a stream's id."""
    catalog: str | None
    subject: str
    """The table, optimizer or operation, as people name it."""
    title: str
    message: str
    link: str
    """Path in the console."""
    since: datetime

    def cleaned(self) -> Problem:
        """The problem with texts that fit into a message and into the database."""
        return replace(
            self,
            key=self.key[:LONGEST_KEY],
            subject=clean_line(self.subject, LONGEST_SUBJECT),
            title=clean_line(self.title, LONGEST_TITLE),
            message=clean_text(self.message, LONGEST_MESSAGE),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProblem:
    """A problem that a rule has reported and that has not ended."""

    number: int
    """Of the message that reported it."""
    kind: ProblemKind
    key: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Comparison:
    """What has changed for one rule."""

    began: Sequence[Problem]
    ended: Sequence[OpenProblem]


def compare_problems(
    rule: Rule, present: Collection[Problem], known: Collection[OpenProblem], looked_for: Collection[ProblemKind]
) -> Comparison:
    """Compare the present problems with the known ones of a rule.

    `looked_for` are the kinds that the server has looked for completely; problems of other kinds go on, unless the
    rule does not watch for them any more. A rule reports what began after its creation: a new one does not repeat the
    failures of the last days.
    """
    open_keys = {(problem.kind, problem.key) for problem in known}
    present_keys = {(problem.kind, problem.key) for problem in present}
    began = [
        problem
        for problem in present
        if rule.watches(problem.kind, problem.catalog)
        and problem.since >= rule.created_at
        and (problem.kind, problem.key) not in open_keys
    ]
    ended = [
        problem
        for problem in known
        if problem.kind not in rule.kinds
        or (problem.kind in looked_for and (problem.kind, problem.key) not in present_keys)
    ]
    return Comparison(began, ended)


def clean_line(text: str, longest: int) -> str:
    """The text as one line: no control characters, no line breaks, no characters that change the direction."""
    return _cut(" ".join("".join(char if char.isprintable() else " " for char in text).split()), longest)


def clean_text(text: str, longest: int) -> str:
    """The text without control characters; line breaks stay."""
    lines = ("".join(char if char.isprintable() else " " for char in line).rstrip() for line in text.splitlines())
    return _cut("\n".join(lines).strip(), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + _CUT
