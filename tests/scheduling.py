"""Assigns test files to the processes of the second tier.

Files of one folder share parts that cost seconds to start: metastores, engines, servers. So a process stays in a folder
until nothing is left there. One process begins with files that need little memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

LIGHT = ("tests/server/", "tests/integration/histories/", "tests/integration/random_requests/")
"""Folders whose tests start no JVM and no browser.

A process that runs them stays below 1 GB, so the machine has room for one more process. It uses the CPU time in which
other processes wait for programs to start and to end.
"""
HEAVY = ("tests/integration/hive/",)
"""Folders whose tests add a second Spark to the one that a process has. The light process never gets them."""
LONG = ("tests/integration/hive/", "tests/integration/keyed/", "tests/integration/engines/")
"""Folders that take longest: they are begun first, so that no process is left alone with one of them at the end."""


def folder_of(file: str) -> str:
    """The folder whose parts a file shares, such as `tests/integration/hive/`."""
    return "/".join(file.split("/")[:3]) + "/"


def choose_file(
    files: Sequence[str], here: str | None, taken_folders: Collection[str], *, is_light: bool
) -> str | None:
    """The next file for a process that is in the folder `here`, while others are in `taken_folders`.

    It stays where it is. Then it begins a folder that nobody has begun, the long ones first; then it helps where most
    files are left. None when nothing is left for it.
    """
    suitable = [file for file in files if not (is_light and file.startswith(HEAVY))]
    left = Counter(folder_of(file) for file in suitable)

    def rank(file: str) -> tuple[bool, bool, bool, bool, int]:
        folder = folder_of(file)
        helps = folder != here and folder in taken_folders
        return (
            file.startswith(LIGHT) != is_light,
            folder != here,
            helps,
            not folder.startswith(LONG),
            -left[folder] if helps else 0,
        )

    return min(suitable, key=rank, default=None)


class FoldersApart(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives whole files to processes, folder by folder; the last process is the light one."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._light_id = f"gw{self.numnodes - 1}"
        self._folders: dict[str, str] = {}
        """Where each process is, by its id."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process the file that suits it; the light one ends when only heavy ones are left."""
        process = node.gateway.id
        taken_folders = {folder for other, folder in self._folders.items() if other != process}
        file = choose_file(
            list(self.workqueue), self._folders.get(process), taken_folders, is_light=process == self._light_id
        )
        if file is None:
            self._folders.pop(process, None)
            node.shutdown()
            return
        self._folders[process] = folder_of(file)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
