"""Assigns test files to the processes of the second tier: one process prefers files that need little memory."""

from __future__ import annotations

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


class LightFilesApart(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Assigns whole files to processes: the last process takes light files first, the others take them last."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._light_id = f"gw{self.numnodes - 1}"

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the first suitable file to a process. The light process ends when only heavy files are left."""
        files = list(self.workqueue)
        if node.gateway.id == self._light_id:
            files = [file for file in files if not file.startswith(HEAVY)]
            files.sort(key=lambda file: not file.startswith(LIGHT))
        else:
            files.sort(key=lambda file: file.startswith(LIGHT))
        if not files:
            node.shutdown()
            return
        self.workqueue.move_to_end(files[0], last=False)
        super()._assign_work_unit(node)
