"""Manifest lists of the warehouse, seen by the services."""

from __future__ import annotations

from typing import Protocol

from catalog.commits.rebase import OvertakenAppend, RebasedManifestList
from catalog.files.manifest_entries import NewDeletes
from catalog.iceberg.json import Json


class ManifestLists(Protocol):
    """Reads the manifests that a client has written."""

    def named(self, manifest_list: str) -> list[str]:
        """The manifests that a manifest list names; none when there is no such file yet.

        Invalid when the file is no manifest list, Unavailable when the storage does not answer.
        """

    def joined(self, metadata: Json, append: OvertakenAppend) -> RebasedManifestList | None:
        """The append's manifests over those of its branch's head; nothing is written.

        None when they are not what a plain append brings: the append has to be refused then. Unavailable when the
        storage does not answer, which is no reason to refuse: a repetition of the request must not fare better.
        """

    def new_deletes(self, metadata: Json, snapshot: Json) -> NewDeletes:
        """What a snapshot that is about to be committed to the table adds; nothing where its files are not there.

        Invalid when they are no manifests or lie outside of the table's directory.
        """
