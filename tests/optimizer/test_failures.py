"""What failed, in words for people."""

from __future__ import annotations

from typing import Any

import pytest

from firn.protocol.leases import Lease
from optimizer.failures import TRACE_LINES, explain_failure, read_java_trace
from tests.optimizer.leases import a_lease

FILE = "hdfs://nn:9000/hive/sales/day=2026-01-01/region=a%20b/000000_0"


class JavaClass:
    def __init__(self, name: str) -> None:
        self.name = name

    def getName(self) -> str:  # noqa: N802 -- Java's
        return self.name


class JavaError:
    """A Java exception with its cause."""

    def __init__(self, name: str, message: str, cause: JavaError | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> JavaClass:  # noqa: N802
        return JavaClass(self.name)

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> JavaError | None:  # noqa: N802
        return self.cause


class Failed(Exception):
    """A failure of Java's, as PySpark hands it on."""

    def __init__(self, *causes: tuple[str, str]) -> None:
        origin: JavaError | None = None
        for name, message in reversed(causes):
            origin = JavaError(name, message, origin)
        self._origin = origin
        super().__init__("An error occurred while calling o12235.collectToPython.\n: org.apache.spark.SparkException")


def lease(**more: Any) -> Lease:
    return a_lease(**{"table": "db.sales", **more})


ABORTED = ("org.apache.spark.SparkException", "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times")
LOST = [
    ("org.apache.iceberg.exceptions.NotFoundException", f"Failed to open input stream for file: {FILE}"),
    ("java.io.FileNotFoundException", f"File {FILE} does not exist"),
    ("java.io.FileNotFoundException", f"File does not exist: {FILE}"),
    ("org.apache.iceberg.exceptions.NotFoundException", f"Location does not exist: {FILE}"),
    (
        "org.apache.spark.SparkFileNotFoundException",
        f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file {FILE}. File does not exist. It is …",
    ),
]


@pytest.mark.parametrize("cause", LOST)
def test_a_merge_that_loses_its_files_to_a_hive_overwrite_names_the_file_the_cause_and_what_comes_next(
    cause: tuple[str, str],
) -> None:
    """It said: An error occurred while calling o12235.collectToPython."""
    explanation = explain_failure(Failed(ABORTED, cause), lease(hive_table="h.sales"))
    assert explanation == (
        f"the file {FILE} is gone: Hive has overwritten, moved or dropped partition day=2026-01-01/region=a b of "
        "h.sales since the last sync. The next sync takes that over, and the merge is planned again"
    )


def test_a_file_of_a_plain_table_that_is_gone_is_named_with_what_to_do() -> None:
    explanation = explain_failure(Failed(ABORTED, LOST[0]), lease(kind="rewrite"))
    assert explanation.startswith(
        f"the file {FILE} is gone: something other than Firn has deleted or moved it, and db.sales"
    )
    assert "roll the table back" in explanation


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (("java.io.IOException", "No space left on device"), "a disk is full"),
        (("java.lang.OutOfMemoryError", "Java heap space"), "--driver-memory"),
        (
            ("org.apache.spark.memory.SparkOutOfMemoryError", "[UNABLE_TO_ACQUIRE_MEMORY] Unable to …"),
            "--driver-memory",
        ),
        (("org.apache.spark.SparkException", "Can't acquire 9 bytes memory to build hash relation"), "--driver-memory"),
        (
            ("software.amazon.awssdk.services.s3.model.S3Exception", "Access Denied (Service: S3, Status Code: 403)"),
            "Access Denied (Service: S3",
        ),
        (
            (
                "software.amazon.awssdk.core.exception.SdkClientException",
                "Unable to load credentials from any of the providers",
            ),
            "no credentials for the storage",
        ),
        (
            (
                "org.apache.hadoop.ipc.RemoteException",
                "token (HDFS_DELEGATION_TOKEN token 3 for ann) is expired, current time: 2026-11-27 09:00:00,000",
            ),
            "the HDFS tokens of this application have ended. Start another optimizer",
        ),
    ],
)
def test_what_people_can_do_something_about_says_what(cause: tuple[str, str], words: str) -> None:
    explanation = explain_failure(Failed(ABORTED, cause), lease())
    assert words in explanation
    assert "An error occurred while calling" not in explanation


@pytest.mark.parametrize(
    "message",
    [
        (
            "Job aborted due to stage failure: Total size of serialized results of 12 tasks (1024.6 MiB) is "
            "bigger than spark.driver.maxResultSize (1024.0 MiB)"
        ),
        "Cannot broadcast the table that is larger than 8.0 GiB: 9.1 GiB.",
        "Not enough memory to build and broadcast the table to all worker nodes. As a workaround, you can either …",
    ],
)
def test_a_result_that_the_driver_cannot_hold_is_told_with_what_to_do(message: str) -> None:
    explanation = explain_failure(Failed(ABORTED, ("org.apache.spark.SparkException", message)), lease(kind="pipeline"))
    assert explanation.startswith(
        f"Spark's driver would have to hold more rows than it may ({message}): leave out hints"
    )
    assert "max_commits" in explanation


def test_the_advice_about_memory_belongs_to_the_kind_of_job() -> None:
    failed = Failed(ABORTED, ("java.lang.OutOfMemoryError", "Java heap space"))
    assert "max_commits" in explain_failure(failed, lease(kind="pipeline"))
    assert "firn.merge.max-job-rows" in explain_failure(failed, lease(kind="merge"))


def test_of_any_other_failure_the_innermost_cause_is_told() -> None:
    failed = Failed(ABORTED, ("java.lang.IllegalStateException", "a row has null in column id\nat line 2"))
    assert explain_failure(failed, lease()) == "a row has null in column id"
    assert explain_failure(ValueError("so"), lease()) == "so"


def test_a_stack_trace_is_bounded_and_pythons_own_errors_have_none() -> None:
    failed = Failed(ABORTED)
    failed._stackTrace = "\n".join(f"at line {at}" for at in range(500))  # type: ignore[attr-defined]
    lines = read_java_trace(failed)
    assert (len(lines), lines[-1].startswith("… ")) == (TRACE_LINES + 1, True)
    assert read_java_trace(ValueError("so")) == []
