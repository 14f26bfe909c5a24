"""Reads the tokens of one SQL statement from left to right; each error has line and column."""

from __future__ import annotations

from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from firn.pipelines.errors import InvalidDefinition, Place


class TokenReader:
    """A place among the tokens of a statement. Words are compared in upper case; quoted names are no words."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.position = 0

    @property
    def is_at_end(self) -> bool:
        """Whether no token is left."""
        return self.position >= len(self.tokens)

    def word(self) -> str:
        """The next word or sign; empty at the end, and for quoted texts and names."""
        if self.is_at_end:
            return ""
        token = self.tokens[self.position]
        is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return "" if is_quoted else " ".join(token.text.upper().split())

    def is_at(self, word: str) -> bool:
        """Whether this word comes next."""
        return self.word() == word

    def take(self, *words: str) -> bool:
        """Move behind these words if they come next."""
        start = self.position
        for word in words:
            if not self.is_at(word):
                self.position = start
                return False
            self.position += 1
        return True

    def require(self, *words: str) -> None:
        """Move behind these words. Raises InvalidDefinition for the first that is missing."""
        for word in words:
            if not self.take(word):
                self.refuse(f"{word} is missing")

    def next_token(self, expected: str) -> Token:
        """The next token, whatever it is. Raises InvalidDefinition at the end."""
        token = self.peek(expected)
        self.position += 1
        return token

    def peek(self, expected: str) -> Token:
        """The next token, which stays the next one. Raises InvalidDefinition at the end."""
        if self.is_at_end:
            self.refuse(f"{expected} is missing")
        return self.tokens[self.position]

    def read_identifier(self) -> str:
        """One part of a name."""
        token = self.next_token("a name")
        if token.token_type is TokenType.STRING or not (token.text.strip() and (token.text[0] not in "()=,.;")):
            self.refuse("a name is missing", token)
        return token.text

    def read_name(self) -> tuple[str, ...]:
        """A name whose parts are joined by dots."""
        parts = [self.read_identifier()]
        while self.take("."):
            parts.append(self.read_identifier())
        return tuple(parts)

    def read_identifiers(self) -> tuple[str, ...]:
        """A list of names in parentheses."""
        self.require("(")
        names = [self.read_identifier()]
        while self.take(","):
            names.append(self.read_identifier())
        self.require(")")
        return tuple(names)

    def skip_until(self, *ends: str) -> None:
        """Move to the first of `ends` outside of inner parentheses."""
        depth = 0
        while not self.is_at_end:
            word = self.word()
            if depth == 0 and word in ends:
                return
            depth += (word == "(") - (word == ")")
            self.position += 1
        self.refuse("a parenthesis does not end")

    def skip_parentheses(self) -> None:
        """Move behind what stands in parentheses."""
        self.require("(")
        self.skip_until(")")
        self.require(")")

    def text_since(self, first: Token) -> str:
        """The text from a token to the last one that was read."""
        return self.text[first.start : self.tokens[self.position - 1].end + 1]

    def refuse(self, reason: str, token: Token | None = None, *, hint: str | None = None) -> NoReturn:
        """Raise InvalidDefinition with the place of a token; of the next one by default."""
        place = place_of(token or self.tokens[min(self.position, len(self.tokens) - 1)])
        raise InvalidDefinition.at(place, reason, hint=hint)


def place_of(token: Token) -> Place:
    """Line and column at which a token begins."""
    return Place(token.line, token.col - (token.end - token.start))
