"""What people read of the hundreds of lines that spark-submit writes before it fails."""

from __future__ import annotations

import pytest

from catalog.launch.submit_output import find_pod_failure, find_reason

UNKNOWN_QUEUE = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/25 23:01:10 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
26/11/25 23:01:11 INFO DefaultNoHARMFailoverProxyProvider: Connecting to ResourceManager at /127.0.0.1:18702
26/11/25 23:01:14 INFO Client: Deleted staging directory hdfs://prod/user/firn/.sparkStaging/application_1
Exception in thread "main" org.apache.hadoop.yarn.exceptions.YarnException: Failed to submit application_1 to YARN : \
Application application_1 submitted by user root to unknown queue: nope
\tat org.apache.hadoop.yarn.client.api.impl.YarnClientImpl.submitApplication(YarnClientImpl.java:336)
\tat org.apache.spark.deploy.SparkSubmit$$anon$2.doSubmit(SparkSubmit.scala:1144)
\t... 12 more
26/11/25 23:01:14 INFO ShutdownHookManager: Shutdown hook called
26/11/25 23:01:14 INFO ShutdownHookManager: Deleting directory /tmp/spark-1
"""
FAILED_DRIVER = """\
26/11/25 23:01:14 INFO Client: Application report for application_1 (state: RUNNING)
26/11/25 23:01:15 INFO Client:
\t client token: N/A
\t diagnostics: User application exited with status 1
\t ApplicationMaster host: node7
\t final status: FAILED
\t user: root
26/11/25 23:01:15 ERROR Client: Application diagnostics message: User application exited with status 1
Exception in thread "main" org.apache.spark.SparkException: application_1 finished with failed status
\tat org.apache.spark.deploy.yarn.Client.run(Client.scala:1312)
26/11/25 23:01:15 INFO ShutdownHookManager: Shutdown hook called
"""


def test_an_unknown_queue_is_named_without_the_stack() -> None:
    assert find_reason(UNKNOWN_QUEUE) == (
        'Exception in thread "main" org.apache.hadoop.yarn.exceptions.YarnException: Failed to submit application_1 to '
        "YARN : Application application_1 submitted by user root to unknown queue: nope"
    )


def test_a_driver_that_failed_says_what_yarn_diagnosed() -> None:
    assert find_reason(FAILED_DRIVER).splitlines() == [
        "diagnostics: User application exited with status 1",
        "26/11/25 23:01:15 ERROR Client: Application diagnostics message: User application exited with status 1",
        'Exception in thread "main" org.apache.spark.SparkException: application_1 finished with failed status',
    ]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", ""),
        ("\n \n", ""),
        ("one\ntwo\n", "one\ntwo"),
        ("\n".join(map(str, range(9))), "4\n5\n6\n7\n8"),
        ("26/11/25 23:01:14 INFO A: b\n", "26/11/25 23:01:14 INFO A: b"),
        ("spark-class: line 71: java: command not found\n", "spark-class: line 71: java: command not found"),
        ("Error: Unrecognized option: --x\nUsage: spark-submit [options]\n", "Error: Unrecognized option: --x"),
        ('Traceback (most recent call last):\n  File "m.py", line 1\n    f()\nValueError: no\n', "ValueError: no"),
        ("\x1b[31mError: red\x1b[0m\x07\n", "Error: red"),
        ("Error: x\n" + "said later\n" * 50, "said later"),
        ("Caused by: a\nCaused by: a\n", "Caused by: a"),
    ],
)
def test_the_lines_that_say_why_are_kept(output: str, reason: str) -> None:
    assert find_reason(output) == reason


POD = """\
26/11/26 00:11:21 INFO LoggingPodStatusWatcherImpl: Container final statuses:


\t container name: spark-kubernetes-driver
\t container state: terminated
\t exit code: 137
\t termination reason: OOMKilled
26/11/26 00:11:21 INFO LoggingPodStatusWatcherImpl: Application a with application ID spark-1 and submission ID \
lake:a-driver finished
"""


def test_a_pod_that_failed_is_reported_though_spark_submit_is_content() -> None:
    failure = find_pod_failure(POD)
    assert failure is not None
    assert failure.exit_status == 137
    assert failure.reason == (
        "the driver's pod ended with exit code 137 (OOMKilled); its log: kubectl logs -n lake a-driver"
    )
    assert find_pod_failure(POD.replace("137", "0")) is None
    assert find_pod_failure("exit code: 3\n termination reason: Error") is None


def test_a_long_line_is_shortened() -> None:
    assert find_reason("Error: " + "x" * 10_000) == "Error: " + "x" * 493 + "…"
