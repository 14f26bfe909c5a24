"""Python of a pipeline's tables for tests on the machine of the user, over rows that the test gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

from firn.pipelines.definition import Definition, Pipeline
from firn.pipelines.parsing import DIALECT
from firn.protocol.pipeline_code import TableCode
from firn.spark.python_code import CodeContext, CodeRunner


def compute_by_code(
    spark: SparkSession, pipeline: Pipeline, definition: Definition
) -> Callable[[Mapping[str, DataFrame]], DataFrame]:
    """A function from the rows of the inputs to those of the table."""
    code = definition.code or TableCode()
    texts = {path: text for path, text in pipeline.files.items() if path.endswith(".py")}
    runner = CodeRunner(spark, code, texts, pipeline.catalog)
    query = definition.source or definition.query.sql(DIALECT)

    def compute(frames: Mapping[str, DataFrame]) -> DataFrame:
        return runner.transform(runner.compute(query, frames), CodeContext(pipeline.name, definition.name))

    return compute
