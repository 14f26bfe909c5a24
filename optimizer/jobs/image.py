"""Image: builds the files of an image that is too large for the server, with PyArrow (docs/protocols.md, rule 5.12).

The server names the files before the first one is written, and writes manifests and metadata at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pyiceberg.io import load_file_io

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.image import BegunImage, CompleteRequest, Layer, LayerTask
from optimizer.adoption import list_written
from optimizer.errors import Refused
from optimizer.images.pair import build_from_task
from optimizer.job import OptimizerJob
from optimizer.job_run import Attempt
from optimizer.read_checks import reads_both_stores

COMPLETE_SECONDS = 120.0
"""How long the server may take to write manifests and metadata."""


class _FilesOutside(Exception):
    """The pair has files that the vended credentials do not reach."""


def run(attempt: Attempt) -> Result:
    """Build; nothing to do where readers have the image already. No Spark takes part."""
    begun = attempt.api.begin_image(attempt.lease)
    if begun.layer is None or begun.build is None:
        return Result(outcome=Outcome.NOTHING, result={"keys": 0})
    attempt.keeper.stage("merging for readers")
    task, layer = _build(attempt, begun, begun.layer)
    attempt.keeper.stage("completing the image")
    request = CompleteRequest(build=begun.build, watermark=task.watermark, layer=layer)
    try:
        attempt.api.complete_image(attempt.lease, request, seconds=COMPLETE_SECONDS)
    except Refused:  # After LeaseLost an earlier try may have been answered: the image may be complete.
        delete_layer(task, layer)
        raise
    attempt.keeper.say(f"readers see {layer.keys} changed keys")
    return Result(outcome=Outcome.NOTHING, result={"keys": layer.keys, "hidden_rows": layer.hidden_rows})


def delete_layer(task: LayerTask, layer: Layer) -> None:
    """Delete the files of a layer that is in no image: retention may have forgotten the build before the last one."""
    file_io = load_file_io(task.file_io, task.directory)
    for location in list_written(layer):
        with suppress(OSError):
            file_io.delete(location)


def _build(attempt: Attempt, begun: BegunImage, task: LayerTask) -> tuple[LayerTask, Layer]:
    """Build with the credentials that the catalog vends for this table, where they reach all files.

    Otherwise this optimizer uses its own. All files are checked before the first one is written. Returns the task with
    the credentials that were used, and the layer.
    """
    check = attempt.file_access.check_files

    def check_inside(files: Sequence[str]) -> None:
        check(files)
        if attempt.file_access.allowed:
            raise _FilesOutside

    if begun.no_credentials is not None:
        attempt.keeper.say(f"this optimizer opens files with its own credentials: {begun.no_credentials}")
    if begun.credentials:
        try:
            vended = task.model_copy(update={"file_io": begun.credentials})
            return vended, build_from_task(vended, check_inside)
        except _FilesOutside:
            attempt.keeper.say("files lie outside of the table's directories: this optimizer opens them by itself")
    return task, build_from_task(task, check)


JOB = OptimizerJob(run, reads_both_stores, run)
