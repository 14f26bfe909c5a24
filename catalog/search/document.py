"""What the search index stores of a table, a view or a Hive table: its words, and the texts that an answer quotes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from catalog.iceberg.json import Json
from catalog.names import CatalogName, Namespace, encode_namespace, fold_case
from catalog.search.words import join_words, mark_label

MOST_COLUMNS = 2_000
LONGEST_FIELD = 20_000
"""Characters of the words of a document's names, and of its other texts."""
LONGEST_COMMENT = 1_000
LONGEST_COLUMN = 512
_LONGEST_TEXTS = 100_000
"""Characters of the texts that a document keeps for answers."""
_FORMAT = "2"
"""What documents contain: a round writes those of another format anew. 2 has owners and labels."""


class DocumentKind(StrEnum):
    """The kind of object that a document describes."""

    TABLE = "table"  # a plain or a keyed table
    VIEW = "view"
    HIVE_TABLE = "hive_table"


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column, nested ones by their path, with its comment and labels."""

    name: str
    comment: str | None = None
    labels: Sequence[str] = ()

    def list_texts(self) -> list[Any]:
        """The texts as an answer quotes them; labels only if there are any, as in documents of earlier releases."""
        return [self.name, self.comment, list(self.labels)] if self.labels else [self.name, self.comment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What a search quotes of an object besides its name."""

    comment: str | None = None
    owner: str | None = None
    labels: Sequence[str] = ()
    columns: Sequence[ColumnText] = ()

    @property
    def all_labels(self) -> Sequence[str]:
        """The labels of the object and of its columns, each once."""
        return list(dict.fromkeys((*self.labels, *(label for column in self.columns for label in column.labels))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """One table, view or Hive table in the search index."""

    kind: DocumentKind
    catalog: CatalogName
    key: str
    """The relation's id in hexadecimal, or `database.table` in Hive."""
    namespace: Namespace
    name: str
    source: str = ""
    """The state of the relation that the document was built from: see build_source."""
    described: Texts = Texts()

    @property
    def name_words(self) -> str:
        """The words of the namespace and the name."""
        return join_words((self.name, *self.namespace), LONGEST_FIELD)

    @property
    def other_words(self) -> str:
        """The marks of labels, then the words of columns, of labels and the owner, and of comments."""
        described = self.described
        labels = described.all_labels
        comments = [column.comment for column in described.columns if column.comment]
        names = (column.name for column in described.columns)
        texts = (*labels, described.owner or "", *names, described.comment or "", *comments)
        marks = " ".join(mark_label(label) for label in labels)
        return f"{marks} {join_words(texts, LONGEST_FIELD)}".strip()

    @property
    def folded_name(self) -> str:
        """The name in one case, by which a search finds exact names and those that begin alike."""
        return fold_case(self.name)[:LONGEST_COLUMN]

    @property
    def texts(self) -> Json:
        """The texts that an answer quotes, as JSON."""
        described = self.described
        more = {"owner": described.owner, "labels": list(described.labels)}
        columns = [column.list_texts() for column in described.columns]
        return {"comment": described.comment, "columns": columns} | {key: text for key, text in more.items() if text}

    @property
    def digest(self) -> str:
        """Equal for equal documents, so that the index does not write unchanged ones."""
        parts = (self.kind, self.catalog, encode_namespace(self.namespace), self.name, self.source, self.texts)
        return hashlib.sha256(repr(parts).encode(errors="replace")).hexdigest()[:32]


def parse_texts(texts: Mapping[str, Any]) -> Texts:
    """Parse stored texts."""
    return Texts(
        comment=texts.get("comment"),
        owner=texts.get("owner"),
        labels=texts.get("labels", ()),
        columns=[ColumnText(*column) for column in texts.get("columns", ())],
    )


def clean_columns(columns: Iterable[ColumnText]) -> list[ColumnText]:
    """The columns that a document keeps: the first ones, with comments that a database can store, up to a limit."""
    kept: list[ColumnText] = []
    left = _LONGEST_TEXTS
    for named in columns:
        name, comment = clean_text(named.name, LONGEST_COLUMN) or "", clean_text(named.comment, LONGEST_COMMENT)
        column = ColumnText(name, comment, named.labels)
        left -= len(name) + len(comment or "") + sum(len(label) for label in named.labels)
        if left < 0 or len(kept) == MOST_COLUMNS:
            break
        kept.append(column)
    return kept


def clean_text(text: object, longest: int = LONGEST_COMMENT) -> str | None:
    """A text that engines wrote, without line breaks and control characters; None for an empty one or no text."""
    if not isinstance(text, str):
        return None
    text = text[:longest]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return text.strip() or None


def build_source(namespace: Namespace, name: str, version: object) -> str:
    """The state of a relation that its document depends on, and the format of documents.

    The version is the schema's id for a table, whose commits of rows change no document, and the metadata file of a
    view.
    """
    text = "\x1f".join((_FORMAT, *namespace, name, str(version)))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
