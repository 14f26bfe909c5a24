"""The files of an image's layer, as the builder tells the server of them (docs/protocols.md#images)."""

from __future__ import annotations

from firn.protocol.base import Message


class HiddenPositions(Message):
    """A position-delete file, or one vector of a Puffin file.

    `data_files` are the files whose positions it hides; they share a partition, which the delete file has, too. A
    vector has one data file, and an offset and a length in bytes.
    """

    location: str
    size: int
    data_files: list[str]
    rows: int
    offset: int | None = None
    length: int | None = None


class Pack(Message):
    """One data file with the newest rows of pending keys. It has the partition of the change file `like`."""

    location: str
    rows: int
    like: str


class Layer(Message):
    """What the changes of one pair of snapshots add to base.

    `replaced_vectors` are data files of base whose vectors do not count any more: the positions are among `hidden`.
    """

    packs: list[Pack]
    hidden: list[HiddenPositions]
    replaced_vectors: list[str]
    keys: int
    hidden_rows: int
