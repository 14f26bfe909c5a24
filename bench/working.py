"""An optimizer's own code in the benchmark's Spark, so that both sides of a comparison share one warm JVM."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

import pyspark

from bench.keyed import Stage
from firn.protocol.answers.jobs import JobOut
from optimizer.client import connect
from optimizer.jobs import JOBS
from optimizer.spark import SparkProcess
from optimizer.worker import Worker


@dataclass(frozen=True, slots=True)
class Working:
    """A worker that takes one job when it is told to."""

    stage: Stage
    worker: Worker

    def run(self, job: JobOut) -> JobOut:
        """Do the job that was just asked for; as it ended, RuntimeError when it did not succeed.

        It registers for each job: the server forgets a worker that says nothing while its peers work.
        """
        self.worker.work_once(self.worker.api.register(**self.worker.about).id)
        ended = self.stage.server.client.jobs.get(job.id)
        if ended.status != "succeeded":
            raise RuntimeError(f"the {ended.kind} of {ended.table} has {ended.status}: {ended.error}")
        return ended


def working(stage: Stage) -> Working:
    """A worker on this stage."""
    about = {
        "group": "default",
        "host": "bench",
        "pid": os.getpid(),
        "version": "0",
        "facts": {"spark": pyspark.__version__},
    }
    api = connect(stage.server.url)
    return Working(stage, Worker(api, SparkProcess.of(stage.spark), JOBS, about, threading.Event()))
