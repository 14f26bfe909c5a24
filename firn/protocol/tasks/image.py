"""The tasks of the builder of images, and its answers to the server (docs/protocols.md#images)."""

from __future__ import annotations

from uuid import UUID

from firn.protocol.base import Message, Request, Task
from firn.protocol.tasks.feed import FeedRows, FeedTask, QuarantineRows, QuarantineTask, Refusal


class OldRows(Message):
    """The rows that are too old for reads: those whose column `field_id` is below `value`.

    The value is in the column's unit: days, or microseconds, since 1970. Rows with null stay. Without `of_base`, base
    shows none of them, because it is an image that hides them.
    """

    field_id: int
    value: int
    of_base: bool = True


class LayerTask(Task):
    """One layer to build: on base, or on an image that stands for it.

    `base_metadata` and `change_metadata` are locations of metadata files, read at their current snapshots. Change files
    count whose sequence number is above `watermark` and, on an image that has the older ones, above `since`. The
    layer's files get names that begin with `name`, in `directory`. `file_io` are PyIceberg's properties.
    `memory_bytes` is what the builder's process may take; with less memory it reads the keys several times. If the
    key columns of base are larger than `most_key_bytes`, nothing is built. On an `insert_only` table the first row of a
    key wins.
    """

    base_metadata: str
    change_metadata: str
    primary_key: list[str]
    sequence_field: str | None = None
    insert_only: bool = False
    hides: OldRows | None = None
    watermark: int
    since: int = 0
    directory: str
    name: str
    format_version: int
    memory_bytes: int | None = None
    most_key_bytes: int | None = None
    file_io: dict[str, str] = {}


class ImageTask(Task):
    """A job that builds an image too large for the server. It gets all facts when it begins: see `BegunImage`."""


class BegunImage(Message):
    """What the server has noted down for a job's build; no layer where readers have the image already.

    `credentials` are PyIceberg's properties with which the job reads both stores and writes the layer. They are empty
    where the catalog vends none for a single table; `no_credentials` says why, if it should have.
    """

    build: UUID | None = None
    layer: LayerTask | None = None
    credentials: dict[str, str] = {}
    no_credentials: str | None = None


class ImageCredentials(Message):
    """Credentials of a job that builds an image, as in `BegunImage`."""

    credentials: dict[str, str] = {}
    no_credentials: str | None = None


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
    """The files that the changes of one pair of snapshots add to base.

    `replaced_vectors` are data files of base whose vectors do not count any more: the positions are among `hidden`.
    A merge may also have written files of base again: `rewritten` are the new files, each `like` a file of base in the
    same partition. They replace `removed_files`, and `removed_deletes` apply to nothing then.
    """

    packs: list[Pack]
    hidden: list[HiddenPositions]
    replaced_vectors: list[str]
    keys: int
    hidden_rows: int
    rewritten: list[Pack] = []
    removed_files: list[str] = []
    removed_deletes: list[str] = []


class CompleteRequest(Request):
    """The layer that a job has built. `watermark` is that of its task."""

    build: UUID
    watermark: int
    layer: Layer


class KeysTask(Task):
    """Files of rows whose keys are to be checked before the change store takes them.

    `metadata` is the location of a metadata file with the columns. `finds_repeated` asks for keys that come twice.
    """

    metadata: str
    primary_key: list[str]
    sequence_field: str | None = None
    files: list[str]
    finds_repeated: bool
    file_io: dict[str, str] = {}


class KeyReport(Message):
    """Problems of keys: the rows with a null, by column, and the keys of several rows; `samples` shows some."""

    nulls: dict[str, int]
    repeated: int = 0
    samples: list[str] = []


class DeletesTask(Task):
    """Rows of an image that a statement deletes, to be written as changes.

    `image_metadata` is the location of the image's metadata. `deletes` are the statement's delete files or vectors.
    They also hold the positions of `replaced_deletes`, which are the image's own. `removed_files` are data files of
    the image that the statement deletes as a whole. `inserted` are data files of the same statement: rows with the same
    values of `replacing` need no delete. The files with the deleted rows get names that begin with `name`, in
    `directory`. More than `most_rows` rows are not read.
    """

    image_metadata: str
    primary_key: list[str]
    deletes: list[str]
    replaced_deletes: list[str]
    removed_files: list[str]
    inserted: list[str] = []
    replacing: list[str] = []
    most_rows: int
    directory: str
    name: str
    file_io: dict[str, str] = {}


class DeletedRows(Message):
    """Files with the keys of deleted rows. Each has the partition of the image's file `like`.

    `stale` says which row the image does not have any more, `too_many` how many rows are more than the task allows;
    then no file was written.
    """

    files: list[Pack] = []
    stale: str | None = None
    too_many: int | None = None


class UpsertsTask(Task):
    """The files of a commit with equality deletes, to be turned into changes.

    `metadata` is the location of a metadata file with the columns. `files` are data files. `equality_deletes` are files
    with deleted keys, those of a partition together. `position_deletes` hide rows of `files`. New files get names that
    begin with `name`, in `directory`.
    """

    metadata: str
    primary_key: list[str]
    sequence_field: str | None = None
    files: list[str]
    equality_deletes: list[list[str]]
    position_deletes: list[str]
    directory: str
    name: str
    file_io: dict[str, str] = {}


class UpsertedRows(Message):
    """What becomes of the files of an `UpsertsTask`.

    `rewritten` are data files with the visible rows of the file `like`, and `hidden` are data files without any.
    `deletes` have the keys that are deleted and that no visible row has; `like` is a file of equality deletes of the
    same partition. `foreign` names a data file that is not of the commit, though position deletes name it. No file was
    written if `report` shows a fault or `foreign` is given.
    """

    report: KeyReport
    rewritten: list[Pack] = []
    hidden: list[str] = []
    deletes: list[Pack] = []
    foreign: str | None = None


class BuilderTask(Task):
    """One line that the server writes to the builder: a layer to build, keys to check, rows to delete, upserts,
    changes or bad records to read.
    """

    layer: LayerTask | None = None
    keys: KeysTask | None = None
    deletes: DeletesTask | None = None
    upserts: UpsertsTask | None = None
    feed: FeedTask | None = None
    quarantine: QuarantineTask | None = None


class BuilderMessage(Message):
    """One line that the builder writes: files that it asks to open, the result, or why there is none.

    The server answers a question with a line `true`, or ends the builder. `gone` names a file that no longer exists,
    `too_large` says which limit of the task is too low, `refused` why there are no changes to read.
    """

    open: list[str] | None = None
    layer: Layer | None = None
    keys: KeyReport | None = None
    deletes: DeletedRows | None = None
    upserts: UpsertedRows | None = None
    feed: FeedRows | None = None
    quarantine: QuarantineRows | None = None
    refused: Refusal | None = None
    error: str | None = None
    gone: str | None = None
    too_large: str | None = None
