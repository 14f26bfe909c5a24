"""Writes the files that hide positions: position-delete files (format v2) or deletion vectors (v3).

A data file has either a vector or position-delete files, never both: readers ignore the second kind without a word
(docs/protocols.md, rule 5.9).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from firn.protocol.tasks.image import HiddenPositions

_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_PUFFIN_MAGIC = b"PFA1"
_PATH, _POSITION = 2147483546, 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION)}),
    ]
)

Hidden = Mapping[str, BitMap64]
"""The positions by the data file's path."""


def to_bitmap(positions: np.ndarray) -> BitMap64:
    """The positions as a bitmap."""
    return BitMap64(positions.astype(np.uint64))


def read_hidden(io: FileIO, files: Iterable[DataFile]) -> dict[str, BitMap64]:
    """All positions that these delete files hide."""
    hidden: dict[str, BitMap64] = defaultdict(BitMap64)
    for file in files:
        for path, positions in _read_positions(io, file):
            hidden[path] |= positions
    return dict(hidden)


def write_position_files(
    io: FileIO, directory: str, name: str, groups: Sequence[Sequence[str]], hidden: Hidden
) -> list[HiddenPositions]:
    """One file for each group of data files, which share their partition."""
    written = []
    for number, group in enumerate(groups):
        paths = sorted(group)
        counts = [len(hidden[path]) for path in paths]
        rows = pa.table(
            [
                pa.chunked_array([pa.repeat(pa.scalar(p), n) for p, n in zip(paths, counts, strict=True)], pa.string()),
                pa.chunked_array([np.array(hidden[path].to_array(), np.int64) for path in paths], pa.int64()),
            ],
            schema=_SCHEMA,
        )
        location = f"{directory}/{name}-{number}.parquet"
        with io.new_output(location).create() as sink:
            pq.write_table(rows, sink, compression="zstd", store_schema=False)
        size = len(io.new_input(location))
        written.append(HiddenPositions(location=location, size=size, data_files=paths, rows=sum(counts)))
    return written


def write_vectors(io: FileIO, directory: str, name: str, hidden: Hidden) -> list[HiddenPositions]:
    """One Puffin file with a vector for each data file."""
    location = f"{directory}/{name}.puffin"
    parts, blobs, offset = [_PUFFIN_MAGIC], list[dict[str, Any]](), len(_PUFFIN_MAGIC)
    for path, positions in sorted(hidden.items()):
        blob = _encode_vector(positions)
        blobs.append(_describe_blob(path, positions, offset, len(blob)))
        parts.append(blob)
        offset += len(blob)
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "Firn"}}).encode()
    parts += [_PUFFIN_MAGIC, footer, struct.pack("<i", len(footer)), b"\0\0\0\0", _PUFFIN_MAGIC]
    data = b"".join(parts)
    with io.new_output(location).create() as sink:
        sink.write(data)
    return [
        HiddenPositions(
            location=location,
            size=len(data),
            data_files=[blob["properties"]["referenced-data-file"]],
            rows=int(blob["properties"]["cardinality"]),
            offset=blob["offset"],
            length=blob["length"],
        )
        for blob in blobs
    ]


def _read_positions(io: FileIO, file: DataFile) -> Iterable[tuple[str, BitMap64]]:
    with io.new_input(file.file_path).open() as stream:
        if file.file_format is FileFormat.PUFFIN:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
            return [(v.referenced_data_file, to_bitmap(v.to_vector().to_numpy())) for v in vectors]
        rows = pq.read_table(stream, columns=["file_path", "pos"])
    encoded = rows["file_path"].combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes, positions = encoded.indices.to_numpy(), rows["pos"].to_numpy()
    return [(path.as_py(), to_bitmap(positions[codes == code])) for code, path in enumerate(encoded.dictionary)]


def _encode_vector(positions: BitMap64) -> bytes:
    """A blob of type deletion-vector-v1: length, magic, 64-bit Roaring in the portable format, CRC-32."""
    body = _VECTOR_MAGIC + positions.serialize()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _describe_blob(path: str, positions: BitMap64, offset: int, length: int) -> dict[str, Any]:
    return {
        "type": "deletion-vector-v1",
        "fields": [],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
    }
