"""The stores in which the tests keep files: a local disk, HDFS and S3."""

from __future__ import annotations

from dataclasses import dataclass

from server.files.deadlines import Deadlines
from server.files.listing import Listings
from server.files.permissions import StoredPermissions
from server.files.quarantine import QuarantineFiles
from server.files.storage import Storage
from server.service.hive.published_permissions import PublishedPermissions


@dataclass(frozen=True)
class Store:
    kind: str
    top: str
    properties: dict[str, str]

    @property
    def storage(self) -> Storage:
        return Storage(self.properties)

    @property
    def listings(self) -> Listings:
        return Listings(self.properties)

    @property
    def quarantine(self) -> QuarantineFiles:
        return QuarantineFiles(self.storage, self.properties)

    @property
    def permissions(self) -> PublishedPermissions:
        return PublishedPermissions(StoredPermissions(Deadlines(30)))

    def names(self, directory: str = "") -> list[str]:
        listing = self.listings.list(f"{self.top}{directory}", recursive=True)
        return [file.path for file in listing.files]
