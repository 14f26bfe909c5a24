"""The credentials of a job: those that the catalog vends for the table, or the optimizer's own."""

from __future__ import annotations

from firn.protocol.leases import Lease
from firn.protocol.streams import StreamLease
from optimizer.client import LEASE_HEADER, STREAM_LEASE_HEADER

DELEGATION_HEADER = "X-Iceberg-Access-Delegation"


def build_lease_headers(lease: Lease) -> dict[str, str]:
    """Build the headers of the job's requests to the catalog: the lease, and the kinds of credentials to vend."""
    headers = {LEASE_HEADER: lease.lease}
    if lease.delegation:
        headers[DELEGATION_HEADER] = ",".join(lease.delegation)
    return headers


def build_stream_headers(lease: StreamLease) -> dict[str, str]:
    """Build the headers of a stream's requests to the catalog."""
    headers = {STREAM_LEASE_HEADER: lease.lease}
    if lease.delegation:
        headers[DELEGATION_HEADER] = ",".join(lease.delegation)
    return headers


def use_own_credentials(lease: Lease) -> Lease:
    """A copy of the lease for which the catalog vends nothing: the job opens files with the optimizer's credentials."""
    return lease.model_copy(update={"delegation": []})
