"""The port to manifest lists that clients wrote."""

from __future__ import annotations

from typing import Protocol

from catalog.commits.rebase import OvertakenAppend, RebasedManifestList
from catalog.files.manifest_entries import NewDeletes
from catalog.iceberg.json import Json


class ManifestLists(Protocol):
    """Reads manifest lists and manifests that clients wrote."""

    def named(self, manifest_list: str) -> list[str]:
        """The manifests in a manifest list; none if the file does not exist yet.

        Invalid if the file is no manifest list, Unavailable if the storage does not answer.
        """

    def joined(self, metadata: Json, append: OvertakenAppend) -> RebasedManifestList | None:
        """The append's manifests, added to those of its branch's head; nothing is written.

        None if they are not those of a plain append, which the server must then refuse. Unavailable if the storage
        does not answer. That is no reason to refuse, because a repeated request could succeed.
        """

    def new_deletes(self, metadata: Json, snapshot: Json) -> NewDeletes:
        """The delete files that a snapshot adds which is about to be committed; none if its files are missing.

        Invalid if the files are no manifests or lie outside of the table's directory.
        """
