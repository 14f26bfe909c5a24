"""spark-submit on Kubernetes as the server starts it: what it creates there, and what the server learns of its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.launch.command import LaunchPaths, build_command
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind, check_launch
from catalog.ports.launch import Seen
from firn.embedded.pyspark_jars import pyspark_jars
from server.launch.processes import Processes
from tests.integration.processes.recorded_kubernetes import RecordedKubernetes, recorded_kubernetes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TOKEN = "firn_secret"
LAUNCH = Launch(
    kind=LaunchKind.SPARK_SUBMIT,
    deploy_mode=DeployMode.CLUSTER,
    memory="3g",
    image="registry.example/firn:1",
    namespace="lake",
    service_account="firn-optimizer",
    application="local:///opt/firn/optimizer/__main__.py",
    environment={"TZ": "UTC", "QUOTED": 'it\'s "x"'},
    conf={"spark.kubernetes.driver.secretKeyRef.FIRN_TOKEN": "firn:token", "spark.executor.instances": "1"},
)


@pytest.fixture
def kubernetes() -> Iterator[RecordedKubernetes]:
    with recorded_kubernetes() as running:
        yield running


def submit(launch: Launch, kubernetes: RecordedKubernetes, directory: Path, launch_id: str) -> Seen:
    processes = Processes(directory / "optimizers")
    paths = LaunchPaths(
        server="http://firn.example:8630",
        python=sys.executable,
        spark_submit=str(Path(sys.executable).with_name("spark-submit")),
        application="unused",
        spark_home=str(pyspark_jars().parent),
        directory=str(processes.directory / launch_id),
    )
    launch = check_launch(replace(launch, master=kubernetes.master))
    command = build_command(launch, group="nightly", launch_id=LaunchId(launch_id), paths=paths, token=TOKEN)
    try:
        processes.start(LaunchId(launch_id), command)
        deadline = time.monotonic() + 300
        while True:
            seen = processes.inspect(LaunchId(launch_id))
            assert seen is not None
            if seen.exit_status is not None:
                return seen
            assert time.monotonic() < deadline, (processes.directory / launch_id / "log").read_text(encoding="utf-8")
            time.sleep(0.2)
    finally:
        processes.stop_all()


def test_the_drivers_pod_has_image_account_arguments_and_a_reference_to_the_token(
    kubernetes: RecordedKubernetes, tmp_path: Path
) -> None:
    ended = submit(LAUNCH, kubernetes, tmp_path, "nightly-1")
    assert ended.exit_status == 0, ended.last_words
    (pod,) = kubernetes.of_kind("Pod")
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["namespace"] == "lake"
    assert pod["metadata"]["labels"]["firn/group"] == "nightly"
    assert pod["metadata"]["labels"]["firn/launch"] == "nightly-1"
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["restartPolicy"]) == ("firn-optimizer", "Never")
    assert container["image"] == "registry.example/firn:1"
    arguments = container["args"]
    assert arguments[0] == "driver"
    application = arguments.index("local:///opt/firn/optimizer/__main__.py")
    assert arguments[application + 1 :] == [
        *("--server", "http://firn.example:8630", "--group", "nightly", "--slots", "2", "--launch", "nightly-1")
    ]
    environment: dict[str, Any] = {entry["name"]: entry for entry in container["env"]}
    assert environment["TZ"]["value"] == "UTC"
    assert environment["QUOTED"]["value"] == 'it\'s "x"'
    assert environment["FIRN_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "firn", "key": "token"}
    assert "PYSPARK_DRIVER_PYTHON" not in environment
    assert TOKEN not in str(kubernetes.created)
    assert container["resources"]["requests"]["memory"] >= "3"


def test_a_driver_that_fails_says_why_though_spark_submit_is_content(
    kubernetes: RecordedKubernetes, tmp_path: Path
) -> None:
    kubernetes.exit_code = 2
    failed = submit(LAUNCH, kubernetes, tmp_path, "nightly-2")
    assert failed.exit_status == 2
    assert failed.last_words.startswith(
        "the driver's pod ended with exit code 2 (Error); its log: kubectl logs -n lake "
    )
