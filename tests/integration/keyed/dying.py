"""`python -m tests.integration.keyed.dying server|optimizer ARGUMENTS…`: the real program, which dies where told.

It is told at any time by a file that DYING_FILE names, with words such as `before Committer._move 2`: at the second
call from then on, before it begins. `after` is when it has returned; `stop` in front freezes the process instead.
"""

from __future__ import annotations

import functools
import importlib
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

POINTS: dict[str, tuple[str, ...]] = {
    "server": (
        "server.service.jobs.leases:Jobs.take",
        "server.service.jobs.leases:Jobs.begin_commit",
        "server.service.jobs.leases:Jobs.report",
        "server.service.tables.metadata_files:MetadataFiles.write",
        "server.service.commit.commit_path:Committer._move",
        "server.service.pipelines.pins:PipelinePins.pin",
    ),
    "optimizer": (
        "optimizer.client:ServerApi.take_lease",
        "optimizer.client:ServerApi.committing",
        "optimizer.client:ServerApi.report",
        "optimizer.client:ServerApi.commit_table",
        "optimizer.client:ServerApi.pin_pipeline",
        "optimizer.pipelines.run:PipelineRun.run",
        "optimizer.job_run:JobRun.commit",
    ),
}
_lock = threading.Lock()


def main() -> None:
    """Patch the points, then run the program as if by `python -m`."""
    _, program, *arguments = sys.argv
    for point in POINTS[program]:
        _patch(point)
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


def _patch(point: str) -> None:
    module, _, path = point.partition(":")
    owner_name, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    setattr(owner, name, _mortal(path, getattr(owner, name)))


def _mortal(path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        _pass(f"before {path}")
        result = function(*args, **kwargs)
        _pass(f"after {path}")
        return result

    return called


def _pass(moment: str) -> None:
    """Die, or freeze, if this is where; count down if it will be."""
    instructions = Path(os.environ["DYING_FILE"])
    with _lock:
        if not instructions.exists():
            return
        text = instructions.read_text(encoding="utf-8")
        how = signal.SIGSTOP if text.startswith("stop ") else signal.SIGKILL
        wanted, _, number = text.removeprefix("stop ").rpartition(" ")
        if wanted != moment:
            return
        if int(number) > 1:
            instructions.write_text(text.removesuffix(number) + str(int(number) - 1), encoding="utf-8")
            return
        instructions.unlink()
    os.kill(os.getpid(), how)


if __name__ == "__main__":
    main()
