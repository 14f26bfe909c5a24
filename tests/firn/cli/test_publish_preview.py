"""What `firn hive publish --dry-run` says of the permissions of new directories."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from firn.cli.context import CliContext
from firn.cli.hive import _preview_publish
from firn.cli.show import Show

DIRECTORY = "hdfs://prod/hive/orders/day=1"
KEPT: dict[str, Any] = {
    "directory": DIRECTORY,
    "permissions": "lily:hive rwxr-x---",
    "not_kept": [],
    "refused": None,
    "hint": None,
}
INSTEAD = "the owner is firn instead of lily: an ACL entry gives the same access"
ADVICE = "let lily set a default ACL: hdfs dfs -setfacl -m default:user:firn:r-x"
REFUSED = "lily would lose access, because the cluster has ACLs turned off"


def preview(permissions: dict[str, Any] | None) -> CliContext:
    """A context whose server answers with these permissions."""
    work = {"new": 0, "names": ["day=1"], "files": 2, "rows": 30, "bytes": 2048, "pending_rows": 4}
    answer = {"table": "db.orders", "differing": 1, "since": None, "permissions": permissions, **work}

    def ask(_name: str, *, permissions: bool) -> dict[str, Any]:
        assert permissions
        return answer

    client = SimpleNamespace(hive=SimpleNamespace(preview_publish=ask))
    return cast("CliContext", SimpleNamespace(client=client, show=Show()))


@pytest.mark.parametrize(
    ("permissions", "shown", "exit_code"),
    [
        (KEPT, [DIRECTORY, "lily:hive rwxr-x---: new directories get the same"], 0),
        (KEPT | {"not_kept": [INSTEAD], "hint": ADVICE}, [INSTEAD, ADVICE], 0),
        (KEPT | {"refused": REFUSED, "hint": ADVICE}, [REFUSED, ADVICE], 1),
        (
            None,
            [
                "1 partition differs",
                "4 pending changes",
                "30 rows, now 2.0 KiB in 2 files",
                "1 partition to replace: day=1",
            ],
            0,
        ),
    ],
    ids=["kept", "in part", "refused", "object store"],
)
def test_the_preview_shows_what_new_directories_do_not_get_and_what_their_owner_can_do(
    capsys: pytest.CaptureFixture[str], permissions: dict[str, Any] | None, shown: list[str], exit_code: int
) -> None:
    with pytest.raises(typer.Exit) if exit_code else nullcontext():
        _preview_publish(preview(permissions), ["db.orders"])
    words = " ".join(capsys.readouterr().out.split())
    assert [text for text in shown if text not in words] == []
