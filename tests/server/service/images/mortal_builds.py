"""Servers, builders and optimizers that die between any two files of an image, over one table and its real files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from pyiceberg.io.pyarrow import PyArrowFile

from catalog.errors import NotFound, Unavailable
from catalog.ports.store import Database
from firn.protocol.tasks.image import Layer, LayerTask
from optimizer.images.pair import build_from_task
from server.files.images import ImageFiles
from server.files.quarantine import QuarantineFiles
from server.files.storage import Storage
from server.service.images.builder import ImageBuilder
from server.service.images.image_jobs import ImageJobs
from server.service.images.images import Images
from server.service.images.retention import ImageRetention
from server.service.tables.metadata_files import MetadataFiles
from tests.server.faults import Killed
from tests.server.lake import Lake
from tests.server.service.hive.mortal import Fuse, MortalDatabase


class MortalStorage(Storage):
    """The files that a server writes and deletes, and dies before or after each."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def write_new(self, location: str, data: bytes) -> None:
        self.fuse.at("before writing a file")
        super().write_new(location, data)
        self.fuse.at("after writing a file")

    def delete(self, location: str) -> None:
        self.fuse.at("before deleting a file")
        super().delete(location)
        self.fuse.at("after deleting a file")


@dataclass
class DataFiles:
    """The data files that PyArrow writes, and the fuse of the process that writes them."""

    fuse: Fuse = field(default_factory=Fuse)

    def create(self, write: Callable[..., Any], file: PyArrowFile, *, overwrite: bool = False) -> Any:
        """Open a new file; the process may die before, and when the file is there and empty."""
        self.fuse.at("before a data file")
        stream = write(file, overwrite=overwrite)
        self.fuse.at("in a data file")
        return stream

    @contextmanager
    def die_by(self, fuse: Fuse) -> Iterator[None]:
        """The process that writes data files now is the one with this fuse."""
        before, self.fuse = self.fuse, fuse
        try:
            yield
        finally:
            self.fuse = before


@pytest.fixture
def data_files(monkeypatch: pytest.MonkeyPatch) -> DataFiles:
    """The builders' files in this test."""
    files, write = DataFiles(), PyArrowFile.create
    monkeypatch.setattr(
        PyArrowFile, "create", lambda file, overwrite=False: files.create(write, file, overwrite=overwrite)
    )
    return files


@dataclass
class BuilderInProcess:
    """Implements LayerBuilder with the real builder: it may die alone, with its server, or live longer than that."""

    files: DataFiles
    server: Fuse
    own: Fuse
    outlives_server: bool = False

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        death: list[Killed] = []

        def pass_moment(moment: str) -> None:
            try:
                self.server.at(moment)
            except Killed as killed:
                death.append(killed)
                if not self.outlives_server:
                    raise
            self.own.at(moment)

        both = Fuse()
        both.at = pass_moment  # type: ignore[method-assign]
        try:
            with self.files.die_by(both):
                layer = build_from_task(task, check)
                both.at("after the last data file")
        except Killed as killed:
            if death:
                raise
            raise Unavailable("the builder of images stopped") from killed
        except FileNotFoundError as error:
            raise NotFound("a file of the table is gone") from error
        if death:
            raise death[0]
        return layer

    def stop(self) -> None:
        """Nothing runs on."""


@dataclass
class Server:
    """A server that has just started. With a fuse it dies; without one it works."""

    lake: Lake
    files: DataFiles
    fuse: Fuse = field(default_factory=Fuse)
    builders: Fuse = field(default_factory=Fuse)
    outlives: bool = False

    @property
    def builder(self) -> ImageBuilder:
        real, storage = self.lake.services.images.builder, MortalStorage(self.fuse)
        return replace(
            real,
            database=cast("Database", MortalDatabase(self.lake.database.real, self.fuse)),
            metadata=MetadataFiles(storage),
            files=ImageFiles(storage, QuarantineFiles(storage)),
            builder=BuilderInProcess(self.files, self.fuse, self.builders, self.outlives),
        )

    @contextmanager
    def images(self) -> Iterator[Images]:
        """Its images; the threads end."""
        images = Images(self.lake.services.images.tables, self.builder, most_waiting=4)
        try:
            yield images
        finally:
            images.stop()

    @property
    def jobs(self) -> ImageJobs:
        return ImageJobs(self.lake.services.images.tables, self.builder)

    @property
    def retention(self) -> ImageRetention:
        builder = self.builder
        return ImageRetention(builder.database, builder.metadata, builder.files)
