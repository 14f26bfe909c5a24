"""Access to files for a job: by its lease, to its own tables, while the lease lasts."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from firn.protocol.leases import PROTOCOL
from firn.protocol.pipelines import PutPipeline
from server.iceberg.credentials import REFUSED
from server.service.access.credential_vending import Mechanism
from server.service.jobs.leased_files import FileFacts
from server.service.optimizers.optimizers import Registration
from tests.server.guarded import PIPELINE
from tests.server.vending.vault import OTHER, PATH, SIGNS, STS, TABLE, VAULT, VENDED, Vault

DENIED = 403
REQUEST = {"method": "GET", "region": "us-east-1", "headers": {}}


@pytest.fixture
def client(vault: Vault) -> Iterator[httpx.Client]:
    vault.configure(STS | SIGNS)
    with vault.listening() as url, vault.client(url) as client:
        yield client


@pytest.fixture
def lease(vault: Vault) -> Lease:
    """Of a job on db.orders."""
    services = vault.services
    coming = Registration(group="default", host="here", pid=1, version="0", protocol=PROTOCOL)
    services.planner.run_now(VAULT, TABLE, JobKind.EXPIRE, {})
    leased_job = services.jobs.take(services.optimizers.register(coming).id, list(JobKind))
    assert leased_job is not None
    return leased_job.lease


def by(lease: Lease) -> dict[str, str]:
    return {**VENDED, "X-Firn-Lease": str(lease)}


def load_facts(vault: Vault, lease: Lease) -> FileFacts:
    with vault.services.database.reading() as uow:
        job = uow.jobs.get(lease.job_id)
    leased = vault.services.tasks.build_for_lease(job)
    return vault.services.leased_files.load_facts(leased.context, leased.task)


def test_a_jobs_credentials_write_in_its_own_table(vault: Vault, client: httpx.Client, lease: Lease) -> None:
    config = client.get(f"{PATH}/orders", headers=by(lease)).json()["config"]
    assert "s3.session-token" in config
    assert "s3:DeleteObject" in vault.cloud.policies[-1]
    assert client.get(f"{PATH}/orders/credentials", headers=by(lease)).json()["storage-credentials"]


def test_a_job_gets_no_access_to_another_table(client: httpx.Client, lease: Lease) -> None:
    """Its optimizer may maintain every table, and would get credentials for each of them."""
    answer = client.get(f"{PATH}/customers", headers=by(lease))
    assert (answer.status_code, "s3.session-token" in answer.json()["config"]) == (200, False)
    assert "works on another table" in answer.json()["config"][REFUSED]
    assert client.get(f"{PATH}/customers/credentials", headers=by(lease)).status_code == DENIED
    signed = client.post(f"{PATH}/customers/sign", json={**REQUEST, "uri": "http://x/y"}, headers=by(lease))
    assert (signed.status_code, "works on another table" in signed.text) == (DENIED, True)


def test_a_run_reads_its_inputs_and_writes_its_target(vault: Vault, client: httpx.Client) -> None:
    services = vault.services
    defined = {**PIPELINE["tables"][0], "name": str(TABLE), "inputs": [str(OTHER)]}
    admin = services.access.token_checker.check(vault.admin.text).principal
    services.pipelines.put("p", PutPipeline.model_validate(PIPELINE | {"tables": [defined]}), admin)
    services.pipeline_runs.request("p", TABLE, None)
    coming = Registration(group="default", host="here", pid=1, version="0", protocol=PROTOCOL)
    leased_job = services.jobs.take(services.optimizers.register(coming).id, [JobKind.PIPELINE])
    assert leased_job is not None
    headers = by(leased_job.lease)
    assert "s3.session-token" in client.get(f"{PATH}/orders", headers=headers).json()["config"]
    assert "s3:DeleteObject" in vault.cloud.policies[-1]
    assert "s3.session-token" in client.get(f"{PATH}/customers", headers=headers).json()["config"]
    assert "s3:PutObject" not in vault.cloud.policies[-1]
    services.jobs.cancel(leased_job.lease.job_id)
    assert "has ended" in client.get(f"{PATH}/customers", headers=headers).json()["config"][REFUSED]


def test_access_ends_with_the_lease(vault: Vault, client: httpx.Client, lease: Lease) -> None:
    vault.services.jobs.cancel(lease.job_id)
    assert "has ended" in client.get(f"{PATH}/orders", headers=by(lease)).json()["config"][REFUSED]
    assert client.get(f"{PATH}/orders/credentials", headers=by(lease)).status_code == DENIED
    signed = client.post(f"{PATH}/orders/sign", json={**REQUEST, "uri": "http://x/y"}, headers=by(lease))
    assert (signed.status_code, "has ended" in signed.text) == (DENIED, True)


@pytest.mark.parametrize(
    ("properties", "delegation"),
    [({}, []), (STS, [Mechanism.CREDENTIALS]), (SIGNS, [Mechanism.SIGNING]), (STS | SIGNS, [Mechanism.CREDENTIALS])],
)
def test_a_lease_tells_how_the_catalog_gives_access(
    vault: Vault, lease: Lease, properties: dict[str, str], delegation: list[Mechanism]
) -> None:
    vault.configure(properties)
    assert load_facts(vault, lease).delegation == delegation
