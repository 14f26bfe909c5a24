"""Settings of Spark for runs: what keeps queries to themselves, and what is cheaper over few bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

FEW_BYTES = 256 * 2**20
"""Four tasks sort and join this many bytes. Adaptive execution starts a job for each shuffle, a dozen in all."""
NO_VARIABLES = {"spark.sql.variable.substitute": "false"}
"""Otherwise Spark replaces `${env:NAME}` in the text of a query, also in its strings, by what the optimizer knows."""
VERY_FEW_BYTES = 32 * 2**20
"""Compiling the code of a query takes longer than reading this many bytes without. One task sorts and joins them."""
INTERPRETED_BYTES = 8 * 2**20
"""Compiling single expressions takes longer than interpreting them over this many bytes."""


def choose_settings(total_bytes: int) -> dict[str, str]:
    """Settings for a run whose inputs and target have so many bytes."""
    settings: dict[str, str] = {}
    if total_bytes <= FEW_BYTES:
        settings |= {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}
    if total_bytes <= VERY_FEW_BYTES:
        settings |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}
    if total_bytes <= INTERPRETED_BYTES:
        settings |= {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    return settings


@dataclass
class Tuning:
    """The settings of a run of several tables: Spark reads some of them only when it writes what it has planned."""

    spark: SparkSession
    stack: ExitStack = field(default_factory=ExitStack)
    total_bytes: int = 0

    def reading(self, read_bytes: int) -> AbstractContextManager[None]:
        """Settings for a step that reads so many bytes and ends with an action."""
        return use_settings(self.spark, choose_settings(read_bytes))

    def add(self, table_bytes: int) -> None:
        """Choose settings for one more table, whose inputs and target have so many bytes. `stack` sets them back."""
        self.total_bytes += table_bytes
        self.stack.close()
        self.stack.enter_context(use_settings(self.spark, choose_settings(self.total_bytes)))


@contextmanager
def use_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set them in the session, and set them back in the end."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is not None:
                spark.conf.set(name, old)
