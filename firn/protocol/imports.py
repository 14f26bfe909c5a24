"""Imports of existing tables: the request, and the kinds and states of entries."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from firn.protocol.base import Request


class SourceKind(StrEnum):
    """The kind of source."""

    WAREHOUSE = "warehouse"  # directories, scanned for metadata files
    REST = "rest"  # another Iceberg REST catalog
    HIVE = "hive"  # the Iceberg tables of a Hive Metastore


class ImportOptions(Request):
    """The tables that an import takes, and how it registers them.

    The server keeps token and credential while the import runs, and never shows them.
    """

    warehouse: str | None = Field(default=None, description="The warehouse parameter of the other REST catalog.")
    token: SecretStr | None = Field(default=None, description="Bearer token for the other REST catalog.")
    credential: SecretStr | None = Field(default=None, description="CLIENT_ID:CLIENT_SECRET for a token.")
    token_server: str | None = Field(
        default=None, description="URL of the token endpoint, if it is not the catalog's own."
    )
    scope: str | None = Field(default=None, description="Scope of the requested token; by default `catalog`.")
    into: str | None = Field(default=None, description="Namespace that becomes the parent of all imported namespaces.")
    namespace_depth: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Number of directories above a table's that form its namespace; by default all.",
    )
    include: list[str] = Field(default=[], description="Patterns of tables to import, such as `sales.*`.")
    exclude: list[str] = Field(default=[], description="Patterns of tables to skip, such as `sales.tmp_*`.")
    dry_run: bool = Field(default=False, description="Report the result for each table, but register none.")
    overwrite: bool = Field(default=False, description="Replace tables of the same name; their files stay.")
    refresh: bool = Field(
        default=False, description="Move tables that are registered already to the current metadata of the source."
    )
    allow_locations: list[str] = Field(
        default=[],
        description="Locations to add to the catalog's allowed locations first; needs an administrator.",
    )


class ImportRequest(ImportOptions):
    """The source of an import, and its options."""

    source: SourceKind
    address: str = Field(description="file:, s3: or hdfs: URI of a warehouse, http(s) URL of a catalog, thrift:// URI")


def reveal_secret(secret: SecretStr | None) -> str | None:
    """Get the text of a secret."""
    return None if secret is None else secret.get_secret_value()


class EntryKind(StrEnum):
    """The kind of an entry."""

    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"


class EntryState(StrEnum):
    """The result of an entry."""

    FOUND = "found"  # not decided yet
    READY = "ready"  # a dry run would have registered it
    REGISTERED = "registered"
    REFRESHED = "refreshed"  # an existing table moved to the current metadata of the source
    THERE = "there"  # the table was registered already
    CONFLICT = "conflict"  # the catalog has another table of this name
    AMBIGUOUS = "ambiguous"  # nothing shows which of its metadata files is the newest
    SKIPPED = "skipped"  # the metadata is unreadable, probably because a write was cut off
    FAILED = "failed"

    @property
    def needs_a_person(self) -> bool:
        """Whether a user has to resolve it."""
        return self in (EntryState.CONFLICT, EntryState.AMBIGUOUS, EntryState.FAILED)
