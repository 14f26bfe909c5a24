"""A pipeline on the flights: delays by carrier, day and weather. A run computes what changes of flights can affect."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from demo.claims import require
from demo.hive import DATABASE
from demo.steps import Steps
from firn import spark as firn_spark
from firn.cli import app
from firn.client import Client
from firn.protocol.operations import OperationStatus
from firn.protocol.pipelines import RunResult

FOLDER = Path(__file__).parent / "pipeline"
NAME = "nyc"
DELAYS = f"{DATABASE}.delays"
WEATHER = f"{DATABASE}.weather"
WEATHER_KEY = ("origin", "time_hour")


@dataclass
class Delays:
    """The pipeline in one run of the demo, with the commands that a user types."""

    steps: Steps
    client: Client
    spark: SparkSession

    def build(self) -> None:
        """Store the pipeline, and compute its table before the flights change."""
        self._upgrade_weather()
        with self.steps.step("Put a pipeline: delays by carrier, day and weather") as step:
            self._run_command("pipeline", "put", str(FOLDER))
            plan = self._run_command("pipeline", "plan", str(FOLDER))
            require("incremental" in plan, f"the pipeline is not incremental: {plan}")
            step.result = "the server has it; `firn pipeline plan demo/pipeline` prints:"
        self._show(plan)
        with self.steps.step("Run it") as step:
            self._run_command("pipeline", "run", NAME, DELAYS)
            # On a busy machine, a reader who waits 5 s may see the rows before the changes.
            self.client.tables[f"lake.{DELAYS}"].set_properties({"firn.read.max-wait": "60 s"})
            step.result = f"{self._read_result().mode}; {DELAYS} has {self._read().count():,} rows"

    def update(self) -> None:
        """Compute what the changes of the flights affect. Hive's tables, which have them too, prove it."""
        with self.steps.step("Run it after the corrections: only what they affect") as step:
            printed = self._run_command("pipeline", "run", NAME, DELAYS)
            result = self._read_result()
            require(result.mode == "incremental", f"the run was {result.mode}: {result.reason}")
            step.result = f"{result.keys:,} of {self._read().count():,} rows; `firn pipeline run {NAME} delays` prints:"
        self._show(printed)
        with self.steps.step("The same as Hive computes from all flights") as step:
            (table,) = self.client.pipelines[NAME].show().tables
            expected = _checksum(self.spark.sql(table.definition["query"]))
            require(_checksum(self._read()) == expected, f"{DELAYS} is not what its query says")
            step.result = f"{expected[0]:,} rows, the same checksum"

    def _upgrade_weather(self) -> None:
        with self.steps.step(f"Upgrade {WEATHER}, key {', '.join(WEATHER_KEY)}") as step:
            self.client.hive.refresh()
            if self.client.hive.show(WEATHER)["state"] == "upgraded":
                step.result = "upgraded by an earlier run"
                return
            operation = self.client.operations.wait(self.client.hive.upgrade(WEATHER, primary_key=WEATHER_KEY).id)
            reason = operation.error or operation.status
            require(operation.status is OperationStatus.SUCCEEDED, f"the upgrade did not succeed: {reason}")
            step.result = "an input of the pipeline"

    def _run_command(self, *arguments: str) -> str:
        """Run a command of `firn` in this process, and return its output."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = app.run([*arguments, "--server", self.client.url])
        require(code == 0, f"firn {' '.join(arguments)}: {err.getvalue() or out.getvalue()}")
        return out.getvalue()

    def _show(self, text: str) -> None:
        self.steps.say(indent(text.rstrip(), "    "))

    def _read_result(self) -> RunResult:
        """The result of the last run."""
        run = next(iter(self.client.pipelines[NAME].runs(DELAYS, limit=1)))
        return RunResult.model_validate(run.result)

    def _read(self) -> DataFrame:
        return firn_spark.read(f"lake.{DELAYS}", self.spark)


def _checksum(rows: DataFrame) -> tuple[int, ...]:
    """Count, and a checksum of all values of all rows, in whatever order these come."""
    columns = sorted(rows.columns)
    row = rows.agg(F.count("*"), F.expr(f"bit_xor(xxhash64({', '.join(f'`{column}`' for column in columns)}))")).first()
    return tuple(row) if row is not None else ()
