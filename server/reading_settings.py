"""Settings of reading files that metadata names."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from server.settings_group import Group


class ReadingSettings(Group):
    """Limits on files that metadata names: size and time."""

    metadata_bytes: PositiveInt = Field(
        default=128 * 1024 * 1024, description="Largest metadata file that the server reads or writes, uncompressed."
    )
    cached_metadata_bytes: PositiveInt = Field(
        default=256 * 1024 * 1024, description="Memory for the metadata files that a server process keeps parsed."
    )
    manifest_bytes: PositiveInt = Field(
        default=128 * 1024 * 1024, description="Largest manifest or manifest list; uncompressed 8 times that."
    )
    footer_bytes: PositiveInt = Field(default=128 * 1024 * 1024, description="Largest footer of a Parquet or ORC file.")
    seconds: PositiveFloat = Field(
        default=60, description="Time-out for a read from a network file system, an object store or HDFS."
    )
