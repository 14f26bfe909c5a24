"""deploy/helm: Helm renders what Kubernetes accepts, and what it renders starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.command_line import a_free_port
from tests.integration.packaging.containers import DOCKERFILE, REPOSITORY, of_pod, replaced
from tests.integration.packaging.test_compose import TOKEN, wait_for

CHART = REPOSITORY / "deploy" / "helm" / "firn"
TOOLS = REPOSITORY / ".venv" / "kubernetes"
OLDEST, NEWEST = "1.27", "1.37"
"""Versions of Kubernetes: what the chart says that it needs, and the newest one of the package with the schemas."""
NEEDED = ("--set", "warehouse=s3://lake/warehouse")
EVERYTHING = (
    *NEEDED,
    *("--set", "metastore=thrift://metastore:9083"),
    *("--set", "ingress.enabled=true", "--set", "ingress.tlsSecret=certificate"),
    *("--set", "serviceMonitor.enabled=true", "--set", "serviceMonitor.tokenSecret.name=scraper"),
    *("--set", "server.settings.lease.seconds=90", "--set", "image.pullSecrets[0].name=registry"),
    *("--set", "optimizers.nightly.replicas=2", "--set", "optimizers.nightly.memory=8g"),
    *("--set", "optimizers.nightly.sql=2", "--set", "optimizers.nightly.streams=3"),
    *("--set", "server.env[0].name=FIRN_HIVE__USER", "--set", "server.env[0].value=firn"),
)


def render(*options: str) -> subprocess.CompletedProcess[str]:
    command = [str(TOOLS / "bin" / "helm"), "template", "lake", str(CHART), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def objects(*options: str) -> list[dict[str, Any]]:
    rendered = render(*options)
    assert rendered.returncode == 0, rendered.stderr
    return [document for document in yaml.safe_load_all(rendered.stdout) if document]


def pods(documents: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in documents:
        if document["kind"] in {"Deployment", "StatefulSet"}:
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("options", [NEEDED, EVERYTHING], ids=["least", "everything"])
def test_kubernetes_accepts_every_object(options: tuple[str, ...], version: str, tmp_path: Path) -> None:
    documents = [document for document in objects(*options) if document["kind"] != "ServiceMonitor"]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents), "utf-8")
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, str(tmp_path / "all.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("passed for resource") == len(documents) > 5
    assert "WARN" not in done.stdout


def test_the_monitor_finds_the_service_and_has_a_token() -> None:
    documents = objects(*EVERYTHING)
    monitor = next(document for document in documents if document["kind"] == "ServiceMonitor")
    service = next(document for document in documents if document["kind"] == "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (service["spec"]["ports"][0]["name"], "/metrics")
    assert endpoint["authorization"]["credentials"] == {"name": "scraper", "key": "token"}


def test_no_container_is_root_or_writes_to_its_image() -> None:
    pod_specs = dict(pods(objects(*EVERYTHING)))
    assert set(pod_specs) == {"lake-server", "lake-optimizer-default", "lake-optimizer-nightly"}
    for pod in pod_specs.values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_an_optimizer_sees_neither_the_database_nor_the_key() -> None:
    for name, pod in pods(objects(*EVERYTHING)):
        if "optimizer" in name:
            (optimizer,) = pod["containers"]
            assert {variable["name"] for variable in optimizer["env"]} == {"FIRN_TOKEN_FILE"}


def test_the_group_default_answers_queries_and_drains_streams_and_other_groups_do_so_if_asked() -> None:
    pod_specs = dict(pods(objects(*NEEDED, "--set", "optimizers.nightly.replicas=1")))
    arguments = {
        name: {*pod["containers"][0]["args"]} for name, pod in pod_specs.items() if name.startswith("lake-optimizer")
    }
    assert {"--sql=2", "--streams=4"} <= arguments["lake-optimizer-default"]
    assert {"--sql=0", "--streams=0"} <= arguments["lake-optimizer-nightly"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "set warehouse"),
        ((*NEEDED, "--set", "server.settings.access.enabled=false"), "access.enabled must be true"),
        ((*NEEDED, "--set", "ingress.enabled=true"), "set ingress.tlsSecret"),
    ],
    ids=["no warehouse", "no access control", "no TLS"],
)
def test_values_that_cannot_work_are_refused_with_a_reason(options: tuple[str, ...], reason: str) -> None:
    rendered = render(*options)
    assert rendered.returncode == 1
    assert reason in rendered.stderr


def test_the_chart_has_the_version_of_firn() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    version = re.findall(r'^version = "(.*)"', (REPOSITORY / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert [chart["version"], chart["appVersion"]] == version * 2


def test_the_pods_start_with_the_rendered_settings(postgres_url: str, tmp_path: Path) -> None:
    port = str(a_free_port())
    for directory in ("run", "data"):
        (tmp_path / directory).mkdir()
    paths = {"/run/firn": f"{tmp_path}/run", "/etc/firn": str(tmp_path), "/data": f"{tmp_path}/data"}
    text = replaced(
        yaml.safe_dump_all(objects(*EVERYTHING)),
        {
            **paths,
            "8630": port,
            "s3://lake/warehouse": f"file://{tmp_path}/warehouse",
            "http://lake:": "http://127.0.0.1:",
        },
    )
    documents = [*yaml.safe_load_all(text)]
    settings = next(document for document in documents if document["kind"] == "ConfigMap")
    (tmp_path / "firn.toml").write_text(settings["data"]["firn.toml"], "utf-8")
    known = {"FIRN_DATABASE_URL": postgres_url, "FIRN_SECRET_KEY": "0" * 64, "POD_NAME": "lake-optimizer-nightly-0"}
    dockerfile = replaced(DOCKERFILE, {"/data": f"{tmp_path}/data", "8630": port})
    pod_specs = dict(pods(documents))
    server = of_pod(pod_specs["lake-server"]["containers"][0], dockerfile, known)
    nightly = pod_specs["lake-optimizer-nightly"]
    with server.running() as log:
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}")
        wait_for(lambda: http.get("/readyz").is_success, log)
        http.headers["Authorization"] = f"Bearer {TOKEN.findall(log.read_text('utf-8'))[0]}"
        for _ in range(2):  # a pod that starts again renews its token
            of_pod(nightly["initContainers"][0], dockerfile, known).run()
        with of_pod(nightly["containers"][0], dockerfile, known).running() as optimizer_said:
            (optimizer,) = wait_for(lambda: http.get("/api/v1/optimizers").json(), optimizer_said)
    facts = optimizer["facts"]
    assert (optimizer["group"], optimizer["slots"], facts["sql"], facts["streams"]) == ("nightly", 2, 2, 3)
