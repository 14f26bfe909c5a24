"""An import of a thousand tables."""

from __future__ import annotations

from firn.protocol.operations import OperationStatus
from tests.server.service.imports.importing import Importing


def test_a_thousand_tables_come_in_one_import(mortal: Importing) -> None:
    for number in range(1000):
        mortal.elsewhere.table(f"n{number % 10}/t{number}")
    operation = mortal.start(mortal.spec())
    mortal.imports.activate()
    ended = mortal.operation(operation)
    assert (ended.status, ended.done, ended.total) == (OperationStatus.SUCCEEDED, 1000, 1000)
    assert ended.result["counts"] == {"registered": 1000}
    assert "two catalogs that commit to one table lose data" in (ended.hint or "")
