"""An import of more tables than are listed or registered at one time."""

from __future__ import annotations

from firn.protocol.operations import OperationStatus
from server.service.imports.runner import LIST_BATCH
from tests.server.service.imports.importing import Importing

MANY = 2 * LIST_BATCH + 100


def test_hundreds_of_tables_come_in_one_import(mortal: Importing) -> None:
    for number in range(MANY):
        mortal.elsewhere.table(f"n{number % 10}/t{number}")
    operation = mortal.start(mortal.spec())
    mortal.imports.activate()
    ended = mortal.operation(operation)
    assert (ended.status, ended.done, ended.total) == (OperationStatus.SUCCEEDED, MANY, MANY)
    assert ended.result["counts"] == {"registered": MANY}
    assert "two catalogs that commit to one table lose data" in (ended.hint or "")
