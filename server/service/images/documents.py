"""The metadata of an image as its build has written it: all builds of one image share a location."""

from __future__ import annotations

from catalog.errors import NotFound
from catalog.keyed.image_build import ImageBuild, has_written
from server.service.tables.metadata_files import Document, MetadataFiles


def load_image(metadata: MetadataFiles, build: ImageBuild) -> Document:
    """Load the metadata of a complete build; raises NotFound when it is gone, or when another build has written it.

    Another server may have deleted the image and built it again since this server has read the file. And on HDFS the
    file of a build that was given up may appear late (docs/clusters.md#rules). Both name files that are gone.
    """
    document = metadata.load_present(build.metadata_location)
    if not has_written(build, document.parsed):
        document = metadata.load_anew(build.metadata_location)
    if not has_written(build, document.parsed):
        raise NotFound(f"{build.metadata_location} is the metadata of another build")
    return document
