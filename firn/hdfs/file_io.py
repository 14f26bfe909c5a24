"""PyIceberg's files, with those of HDFS through this package, and all others through PyArrow."""

from __future__ import annotations

from typing import Any

from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from firn.hdfs.files import HdfsReader, HdfsWriter, delete, get_status, is_on_hdfs


class HdfsInputFile(InputFile):
    """A file to read."""

    def __len__(self) -> int:
        return get_status(self.location).size

    def exists(self) -> bool:
        try:
            return not get_status(self.location).is_directory
        except FileNotFoundError:
            return False

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 - PyIceberg's signature
        return HdfsReader(self.location)


class HdfsOutputFile(OutputFile):
    """A file to write; it appears when it is closed."""

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return HdfsInputFile(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
        if overwrite and self.exists():
            delete(self.location)
        return HdfsWriter(self.location)


class ArrowHdfsFileIO(PyArrowFileIO):
    """PyArrow's FileIO without its client of HDFS."""

    def new_input(self, location: str) -> Any:
        return HdfsInputFile(location) if is_on_hdfs(location) else super().new_input(location)

    def new_output(self, location: str) -> Any:
        return HdfsOutputFile(location) if is_on_hdfs(location) else super().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        path = location if isinstance(location, str) else location.location
        if is_on_hdfs(path):
            delete(path)
        else:
            super().delete(location)
