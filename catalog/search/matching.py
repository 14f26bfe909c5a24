"""Compares a typed text with the texts of one object: what matches it, where, and how well.

The database finds candidates by their words. This module decides about each, so that both databases answer alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from catalog.names import fold_case
from catalog.search.document import Texts, clean_text
from catalog.search.words import LONGEST_TYPED, MOST_TYPED_WORDS, covers, mark_label, split_typed
from firn.protocol.search import SearchPart

_LABEL = re.compile(r"(?:^|(?<=\s))(?:label|tag):([\w-]{1,63})(?=\s|$)")
"""Other catalogs call labels tags, so people type that, too."""
_LONGEST_QUOTE = 120
_BEFORE_MATCH = 30
"""Characters of a quote before the word that matches."""


class Rank(IntEnum):
    """How well an object matches; lower is better."""

    EXACT = 0  # the name, with or without its namespace
    BEGINNING = 1  # the name begins with the typed text
    NAME = 2  # words of the name
    FULL_NAME = 3  # words of the name and its namespace
    COLUMN = 4
    COMMENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A match of an object; `text` says for people what matches, and is empty for the name."""

    rank: Rank
    part: SearchPart
    column: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed text and its words."""

    text: str
    """In one case, without labels, control characters and spaces around it."""
    words: Sequence[str]
    labels: Sequence[str] = ()
    """The beginnings of labels that an object or one of its columns has to have: `label:pii`."""

    @classmethod
    def parse(cls, text: str) -> Typed:
        """Parse what somebody typed; it has no words if it has no letters and digits."""
        folded = fold_case(clean_text(text, LONGEST_TYPED) or "")
        labels = _LABEL.findall(folded)[:MOST_TYPED_WORDS]
        rest = _LABEL.sub(" ", folded).strip()
        return cls(rest, split_typed(rest), list(dict.fromkeys(labels)))

    @property
    def index_words(self) -> Sequence[str]:
        """The words that the index has to have, with the marks of labels."""
        return [*self.words, *(mark_label(label) for label in self.labels)]


def match_name(typed: Typed, full_name: str, name: str) -> Match | None:
    """Match a name, with and without what stands before it; None if the names lack one of the words."""
    folded, folded_full = fold_case(name), fold_case(full_name)
    if typed.text in (folded, folded_full):
        rank = Rank.EXACT
    elif typed.text and (folded.startswith(typed.text) or folded_full.startswith(typed.text)):
        rank = Rank.BEGINNING
    elif covers(typed.words, name):
        rank = Rank.NAME
    elif covers(typed.words, full_name):
        rank = Rank.FULL_NAME
    else:
        return None
    return Match(rank=rank, part=SearchPart.NAME)


def match_texts(typed: Typed, full_name: str, texts: Texts) -> Match | None:
    """Match columns, comments, labels and the owner: the first that has all words, or all those that the name lacks.

    An object without one of the typed labels does not match. If nothing else is typed, or the name has all words, the
    labels are what matches.
    """
    labelled = _match_labels(typed.labels, texts)
    if typed.labels and labelled is None:
        return None
    wanted: Sequence[str] = typed.words
    missing = [word for word in wanted if not covers([word], full_name)]
    if labelled is not None and not missing:
        return labelled
    for words in (wanted, missing):
        if words and (match := _match_words(words, texts)) is not None:
            return match
    return None


def _match_labels(typed: Sequence[str], texts: Texts) -> Match | None:
    """The first label that is typed, or None if the object and its columns lack one of them."""
    if not all(any(label.startswith(begin) for label in texts.all_labels) for begin in typed):
        return None
    for begin in typed:
        if own := [label for label in texts.labels if label.startswith(begin)]:
            return _label_match(own[0])
        for column in texts.columns:
            if of_column := [label for label in column.labels if label.startswith(begin)]:
                return _label_match(of_column[0], column.name)
    return None


def _label_match(label: str, column: str | None = None) -> Match:
    text = f"label {label}" if column is None else f"column {column}: label {label}"
    return Match(rank=Rank.COLUMN, part=SearchPart.LABEL, column=column, text=text)


def match_text(typed: Typed, part: SearchPart, text: str) -> Match | None:
    """Match a text such as a statement or a description, and quote it."""
    if not covers(typed.words, text):
        return None
    return Match(rank=Rank.COMMENT, part=part, text=f"{part}: {quote(text, typed.words)}")


def _match_words(words: Sequence[str], texts: Texts) -> Match | None:
    best: Match | None = None
    for match in _matches(words, texts):
        if best is None or match.rank < best.rank:
            best = match
        if best.rank is Rank.COLUMN:
            break
    return best


def _matches(words: Sequence[str], texts: Texts) -> Iterator[Match]:
    for column in texts.columns:
        if covers(words, column.name):
            note = "" if column.comment is None else f": {quote(column.comment, words)}"
            yield Match(
                rank=Rank.COLUMN, part=SearchPart.COLUMN, column=column.name, text=f"column {column.name}{note}"
            )
    for label in texts.labels:
        if covers(words, label):
            yield _label_match(label)
    yield from (
        _label_match(label, column.name) for column in texts.columns for label in column.labels if covers(words, label)
    )
    if texts.owner is not None and covers(words, texts.owner):
        yield Match(rank=Rank.COMMENT, part=SearchPart.OWNER, text=f"owner: {texts.owner}")
    if texts.comment is not None and covers(words, texts.comment):
        yield Match(rank=Rank.COMMENT, part=SearchPart.COMMENT, text=f"comment: {quote(texts.comment, words)}")
    for column in texts.columns:
        if column.comment is not None and covers(words, f"{column.name} {column.comment}"):
            text = f"column {column.name}: {quote(column.comment, words)}"
            yield Match(rank=Rank.COMMENT, part=SearchPart.COLUMN, column=column.name, text=text)


def quote(text: str, words: Sequence[str]) -> str:
    """A text in quotation marks, cut to the surroundings of the first word in it if it is long."""
    text = " ".join(text.split())
    if len(text) <= _LONGEST_QUOTE:
        return f'"{text}"'
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word)) >= 0]
    begin = max(0, min(places, default=0) - _BEFORE_MATCH)
    cut = text[begin : begin + _LONGEST_QUOTE]
    return f'"{"…" if begin else ""}{cut}{"…" if begin + _LONGEST_QUOTE < len(text) else ""}"'
