"""AWS and compatible stores: temporary credentials of a role, and signatures of requests."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import botocore.session
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError

from catalog.credentials.storage_config import StorageConfig
from catalog.errors import CatalogError, Invalid, Unavailable
from catalog.ports.credentials import Keys, ToSign

_CONFIG = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})
_OWN_KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
_TOO_LARGE = frozenset({"PackedPolicyTooLarge", "MalformedPolicyDocument"})
_HINT = "set s3.access-key-id and s3.secret-access-key in file_io, or give the server a role; see docs/settings.md"


class Aws:
    """Uses the server's own keys for metadata; safe to share between threads."""

    def __init__(self, file_io: Mapping[str, str]) -> None:
        """Without keys in `file_io`, AWS's default chain applies: environment, profile, instance."""
        self._own_keys = [file_io.get(key) for key in _OWN_KEYS]
        self._clients: dict[tuple[str | None, str], Any] = {}
        self._lock = threading.Lock()  # creating a client is not thread-safe, using one is

    @cached_property
    def _session(self) -> botocore.session.Session:
        """Created on first use, because it is slow and most servers never need it; two threads may create two."""
        session = botocore.session.Session()
        access, secret, token = self._own_keys
        if access and secret:
            session.set_credentials(access, secret, token)
        return session

    def assume(self, storage: StorageConfig, *, session_name: str, policy: str) -> Keys:
        """Assume the catalog's role and get its keys, limited by the policy."""
        external_id = {} if storage.external_id is None else {"ExternalId": storage.external_id}
        try:
            answer = self._sts(storage).assume_role(
                RoleArn=storage.role_arn,
                RoleSessionName=session_name,
                Policy=policy,
                DurationSeconds=storage.session_seconds,
                **external_id,
            )
        except ClientError as error:
            raise _describe_refusal(storage, error) from error
        except BotoCoreError as error:
            raise Unavailable(f"no credentials for {storage.role_arn}: {error}", hint=_HINT) from error
        credentials = answer["Credentials"]
        expires_at: datetime = credentials["Expiration"]
        return Keys(
            access_key_id=credentials["AccessKeyId"],
            secret_access_key=credentials["SecretAccessKey"],
            session_token=credentials["SessionToken"],
            expires_at=expires_at,
        )

    def signature(self, request: ToSign) -> Mapping[str, str]:
        """Compute the headers that authenticate a request to S3."""
        signed = AWSRequest(method=request.method, url=request.url, headers=dict(request.headers))
        _Sign(self._credentials(), request.payload, request.region).add_auth(signed)
        names = ("Authorization", "X-Amz-Date", "X-Amz-Content-SHA256", "X-Amz-Security-Token")
        return {name: signed.headers[name] for name in names if name in signed.headers}

    def _credentials(self) -> Credentials:
        try:
            credentials = self._session.get_credentials()
            frozen = None if credentials is None else credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise Unavailable(f"the server has no keys for S3: {error}", hint=_HINT) from error
        if frozen is None or not frozen.access_key or not frozen.secret_key:
            raise Unavailable("the server has no keys for S3", hint=_HINT)
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def _sts(self, storage: StorageConfig) -> Any:
        endpoint, region = storage.sts_endpoint or storage.endpoint, storage.signing_region
        with self._lock:
            client = self._clients.get((endpoint, region))
            if client is None:
                client = self._session.create_client("sts", region_name=region, endpoint_url=endpoint, config=_CONFIG)
                self._clients[endpoint, region] = client
            return client


class _Sign(S3SigV4Auth):
    """Signs the client's hash of the body, because the body itself stays with the client."""

    def __init__(self, credentials: Credentials, payload: str, region: str) -> None:
        super().__init__(credentials, "s3", region)
        self._payload = payload

    def payload(self, request: AWSRequest) -> str:
        del request
        return self._payload


def _describe_refusal(storage: StorageConfig, error: ClientError) -> CatalogError:
    reason = error.response.get("Error", {})
    message = f"no credentials for {storage.role_arn}: {reason.get('Message') or reason.get('Code') or error}"
    if reason.get("Code") in _TOO_LARGE:
        return Invalid(message, hint="the table's files are in too many directories for one policy")
    return Unavailable(message, hint="check the role's trust policy and the server's keys")
