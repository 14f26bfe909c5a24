"""Image: builds the files of an image that is too large for the server, with PyArrow (docs/protocols.md, rule 5.12).

The server names the files before the first one is written, and writes manifests and metadata at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyiceberg.io import FileIO, load_file_io

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.image import BegunImage, CompleteRequest, Layer, LayerTask
from optimizer.adoption import list_written
from optimizer.errors import Refused
from optimizer.images.pair import build_from_task
from optimizer.job import OptimizerJob
from optimizer.job_run import Attempt
from optimizer.read_checks import reads_both_stores
from optimizer.renewing_file_io import explain_ended_credentials, open_files

COMPLETE_SECONDS = 120.0
"""How long the server may take to write manifests and metadata."""


class _FilesOutside(Exception):
    """The pair has files that the vended credentials do not reach."""


@dataclass(frozen=True)
class _Built:
    """A layer, and the access to files with which it was built."""

    layer: Layer
    files: FileIO


def run(attempt: Attempt) -> Result:
    """Build; nothing to do where readers have the image already. No Spark takes part."""
    begun = attempt.api.begin_image(attempt.lease)
    if begun.layer is None or begun.build is None:
        return Result(outcome=Outcome.NOTHING, result={"keys": 0})
    attempt.keeper.stage("merging for readers")
    built = _build(attempt, begun, begun.layer)
    layer = built.layer
    attempt.keeper.stage("completing the image")
    request = CompleteRequest(build=begun.build, watermark=begun.layer.watermark, layer=layer)
    try:
        attempt.api.complete_image(attempt.lease, request, seconds=COMPLETE_SECONDS)
    except Refused:  # After LeaseLost an earlier try may have been answered: the image may be complete.
        delete_layer(built.files, layer)
        raise
    attempt.keeper.say(f"readers see {layer.keys} changed keys")
    return Result(outcome=Outcome.NOTHING, result={"keys": layer.keys, "hidden_rows": layer.hidden_rows})


def delete_layer(files: FileIO, layer: Layer) -> None:
    """Delete the files of a layer that is in no image: retention may have forgotten the build before the last one."""
    for location in list_written(layer):
        with suppress(OSError, Refused):
            files.delete(location)


def _build(attempt: Attempt, begun: BegunImage, task: LayerTask) -> _Built:
    """Build with the credentials that the catalog vends for this table, where they reach all files.

    Otherwise this optimizer uses its own. All files are checked before the first one is written.
    """
    check = attempt.file_access.check_files

    def check_inside(locations: Sequence[str]) -> None:
        check(locations)
        if attempt.file_access.allowed:
            raise _FilesOutside

    if begun.no_credentials is not None:
        attempt.keeper.say(f"this optimizer opens files with its own credentials: {begun.no_credentials}")
    if begun.credentials:
        vended = task.model_copy(update={"file_io": begun.credentials})
        files = open_files(begun.credentials, task.directory, partial(_renew, attempt))
        try:
            with explain_ended_credentials(files):
                return _Built(build_from_task(vended, check_inside, files), files)
        except _FilesOutside:
            attempt.keeper.say("files lie outside of the table's directories: this optimizer opens them by itself")
    files = load_file_io(task.file_io, task.directory)
    return _Built(build_from_task(task, check), files)


def _renew(attempt: Attempt) -> Mapping[str, str]:
    granted = attempt.api.renew_image_credentials(attempt.lease)
    if granted.no_credentials is not None:
        attempt.keeper.say(f"no new credentials: {granted.no_credentials}")
    return granted.credentials


JOB = OptimizerJob(run, reads_both_stores, run)
