"""Image: builds the files of an image that is too large for the server, with PyArrow (docs/protocols.md, rule 5.12).

The server names the files before the first one is written, and writes manifests and metadata at the end.
"""

from __future__ import annotations

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.image import CompleteRequest, ImageTask
from optimizer.credentials import use_own_credentials
from optimizer.images.pair import build_from_task
from optimizer.job import OptimizerJob
from optimizer.job_run import Attempt
from optimizer.read_checks import reads_both_stores

COMPLETE_SECONDS = 120.0
"""How long the server may take to write manifests and metadata."""


def run(attempt: Attempt) -> Result:
    """Build; nothing to do where readers have the image already. No Spark takes part.

    The directory of images is in no store, so this optimizer opens files with its own credentials.
    """
    task = ImageTask.model_validate(attempt.lease.task)
    begun = attempt.api.begin_image(attempt.lease)
    if begun.layer is None or begun.build is None:
        return Result(outcome=Outcome.NOTHING, result={"keys": 0})
    attempt.keeper.stage("merging for readers")
    config = attempt.api.load_table(use_own_credentials(attempt.lease), task.base).get("config", {})
    plan = begun.layer.model_copy(update={"file_io": {name: str(value) for name, value in config.items()}})
    layer = build_from_task(plan, attempt.file_access.check_files)
    attempt.keeper.stage("completing the image")
    request = CompleteRequest(build=begun.build, watermark=plan.watermark, layer=layer)
    attempt.api.complete_image(attempt.lease, request, seconds=COMPLETE_SECONDS)
    attempt.keeper.say(f"readers see {layer.keys} changed keys")
    return Result(outcome=Outcome.NOTHING, result={"keys": layer.keys, "hidden_rows": layer.hidden_rows})


JOB = OptimizerJob(run, reads_both_stores, run)
