"""The registration of this process, which the threads for jobs and for streams share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from optimizer.client import ServerApi

log = logging.getLogger(__name__)


@dataclass
class Registration:
    """Registers when somebody needs the id, and again after the server has forgotten it."""

    api: ServerApi
    about: Mapping[str, object]
    slots: int = 1
    _id: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self) -> str:
        """The id under which the server knows this process. Raises NotWelcome, httpx.HTTPError."""
        with self._lock:
            if self._id is None:
                self._id = self.api.register(**self.about, slots=self.slots).id
            return self._id

    def forget(self, optimizer_id: str) -> None:
        """Register anew when the id is needed next, unless another thread has done so."""
        with self._lock:
            if self._id == optimizer_id:
                self._id = None

    def leave(self) -> None:
        """Unregister, if the server knows this process; it hands back what this process has left."""
        with self._lock:
            if self._id is None:
                return
            try:
                self.api.unregister(self._id)
            except httpx.HTTPError as error:
                log.warning("could not say goodbye: %s", error)
            self._id = None
