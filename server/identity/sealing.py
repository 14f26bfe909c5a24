"""Encryption of credentials that the database stores; the key is not in the database."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from catalog.errors import Invalid
from catalog.imports.spec import Secrets
from catalog.jobs.operation import OperationId

KEY_FILE = "secret.key"
_PURPOSE = b"firn: credentials of imports\n"
"""Separates the key from those of other uses of the same setting."""


@dataclass(frozen=True)
class Sealer:
    """See catalog.ports.imports.Sealer and catalog.ports.kafka.PasswordSealer.

    Without a `secret` the key is a file in the data directory.
    """

    secret: str | None
    data_dir: Path

    def seal(self, operation_id: OperationId, credentials: Secrets) -> str:
        """Encrypt credentials for the database."""
        return self._encrypt(str(operation_id), {"token": credentials.token, "credential": credentials.credential})

    def unseal(self, operation_id: OperationId, sealed: str) -> Secrets:
        """Decrypt credentials; Invalid when they were encrypted with another key or for another operation."""
        content = self._decrypt(str(operation_id), sealed)
        if content is None:
            raise Invalid(
                "the credential of this import cannot be decrypted: it was stored with another key",
                hint="start the import again with its credential; servers that share a database need one secret_key",
            )
        return Secrets(token=content["token"], credential=content["credential"])

    def seal_text(self, label: str, text: str) -> str:
        """See catalog.ports.kafka.PasswordSealer."""
        return self._encrypt(label, {"text": text})

    def unseal_text(self, label: str, sealed: str) -> str:
        """See catalog.ports.kafka.PasswordSealer."""
        content = self._decrypt(label, sealed)
        if content is None:
            raise Invalid(
                f"the secret of {label} cannot be decrypted: it was stored with another key",
                hint="drop it and create it again; servers that share a database need one secret_key",
            )
        return str(content["text"])

    def _encrypt(self, label: str, content: dict[str, str | None]) -> str:
        return self._cipher.encrypt(json.dumps({"for": label, **content}).encode()).decode("ascii")

    def _decrypt(self, label: str, sealed: str) -> dict[str, str | None] | None:
        """Decrypt content; None when it was encrypted with another key or under another label."""
        try:
            content: dict[str, str | None] = json.loads(self._cipher.decrypt(sealed.encode("ascii")))
        except InvalidToken:
            return None
        return content if content.get("for") == label else None

    @cached_property
    def _cipher(self) -> Fernet:
        secret = self.secret.encode() if self.secret is not None else _load_key(self.data_dir / KEY_FILE)
        return Fernet(base64.urlsafe_b64encode(hashlib.sha256(_PURPOSE + secret).digest()))


def _load_key(path: Path) -> bytes:
    """Read the key from the file; one of several concurrent processes creates a missing file."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(32).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
    return path.read_bytes()
