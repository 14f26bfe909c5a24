"""Every domain error has an answer on both wires, and the one that its clients expect."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from fastapi import Request

import server
from catalog.errors import (
    AlreadyExists,
    CatalogError,
    CommitRefused,
    CommitUnknown,
    Conflict,
    DuplicateBatch,
    Forbidden,
    LeaseLost,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    PositionMoved,
    RequirementFailed,
    Unavailable,
    WriterFenced,
)
from server.api import errors as management
from server.iceberg import errors as iceberg
from tests.factories import NOW


def subclasses(kind: type[CatalogError]) -> Iterator[type[CatalogError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from subclasses(below)


# An error is known once its module is imported: which others have been must not depend on the tests that run.
for module in pkgutil.walk_packages(server.__path__, "server."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
ALL = sorted(set(subclasses(CatalogError)) - {CatalogError}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", ALL)
def test_every_domain_error_has_a_status_on_both_wires(kind: type[CatalogError]) -> None:
    assert any(base in management.STATUS for base in kind.__mro__)
    assert any(base in iceberg.STATUS for base in kind.__mro__)


def test_an_unknown_commit_is_no_refusal() -> None:
    """Whoever handles refusals must not get hold of it: files would be cleaned up in doubt."""
    assert not issubclass(CommitUnknown, CatalogError)
    answer = iceberg.answer_unknown_commit(a_request(), CommitUnknown("no answer"))
    assert (answer.status_code, b"CommitStateUnknownException" in answer.body) == (500, True)


def a_request(*, commits: bool = False) -> Request:
    request = Request({"type": "http"})
    request.state.commits = commits
    return request


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (NoSuchNamespace("x"), 404, "NoSuchNamespaceException"),
        (NoSuchTable("x"), 404, "NoSuchTableException"),
        (NoSuchView("x"), 404, "NoSuchViewException"),
        (AlreadyExists("x"), 409, "AlreadyExistsException"),
        (NamespaceNotEmpty("x"), 409, "NamespaceNotEmptyException"),
        (RequirementFailed("x"), 409, "CommitFailedException"),
        (CommitRefused("x"), 409, "CommitFailedException"),
        (Conflict("x"), 409, "CommitFailedException"),
        (LeaseLost("x"), 403, "LeaseLostException"),
        (Forbidden("x"), 403, "ForbiddenException"),
        (DuplicateBatch("w", "b", 1), 400, "DuplicateBatchException"),
        (WriterFenced("w", 1, 2, at=NOW, ended_at=None), 400, "WriterFencedException"),
        (PositionMoved("w", "a", "b", repeated_in=None), 400, "PositionMovedException"),
    ],
)
def test_engines_get_the_names_that_they_switch_on(error: CatalogError, status: int, name: str) -> None:
    answer = iceberg.answer_refusal(a_request(commits=True), error)
    assert answer.status_code == status
    assert f'"type":"{name}"'.encode() in answer.body


def test_a_database_that_is_away_refuses_a_commit_without_a_5xx() -> None:
    """On a commit engines take a 5xx for unknown; this one is known not to be applied."""
    assert iceberg.answer_refusal(a_request(commits=True), Unavailable("away")).status_code == 409
    assert iceberg.answer_refusal(a_request(), Unavailable("away")).status_code == 503


def test_the_hint_reaches_engines_too() -> None:
    body = iceberg.answer_refusal(a_request(), Conflict("no", hint="do this")).body
    assert b"no; do this" in body
