"""Splits names and comments into the words that a search compares. Documents and typed texts use the same rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from catalog.names import fold_case

LONGEST_WORD = 64
LONGEST_TYPED = 500
"""Characters of a typed text."""
MOST_TYPED_WORDS = 8

_LABEL_MARK = "\u00a7"
"""Begins the mark of a label in a document. It is no letter, so no word of a text is a mark."""
_HYPHENS = str.maketrans("-_", "\u00b7\u00b8")
"""SQLite would split a mark at `-` and `_`. These characters are no letters either."""
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def split_words(text: str) -> list[str]:
    """Split a text into words: runs of letters, digits and marks of any script, in one case. `_` separates words."""
    folded = fold_case(text)
    if folded.isascii():
        words = _ASCII_WORD.findall(folded)
    else:
        words = "".join(char if _is_part_of_word(char) else " " for char in folded).split()
    return [word[:LONGEST_WORD] for word in words]


def split_typed(text: str) -> list[str]:
    """The words of a typed text, each once; a search ignores words beyond the first few."""
    return list(dict.fromkeys(split_words(text[:LONGEST_TYPED])))[:MOST_TYPED_WORDS]


def mark_label(label: str) -> str:
    """The word of a document that stands for a label; the typed `label:pii` looks for words that begin like it."""
    return _LABEL_MARK + label.translate(_HYPHENS)


def join_words(texts: Iterable[str], longest: int) -> str:
    """The words of texts, each once, separated by spaces, in at most so many characters."""
    words, length = dict[str, None](), 0
    for text in texts:
        for word in split_words(text):
            if word in words:
                continue
            length += len(word) + 1
            if length > longest:
                return " ".join(words)
            words[word] = None
    return " ".join(words)


def covers(words: Iterable[str], text: str) -> bool:
    """Whether each of the words begins a word of the text."""
    words, folded = list(words), fold_case(text)
    if not all(word in folded for word in words):
        return False  # most texts match nothing, and splitting one takes ten times as long
    in_text = split_words(text)
    return all(any(candidate.startswith(word) for candidate in in_text) for word in words)


def _is_part_of_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char).startswith("M")
