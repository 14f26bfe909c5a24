"""A strict reader of YAML: each error names the line, and unknown fields the nearest known one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from firn.errors import FirnError, Invalid

Node: TypeAlias = Any
"""A node of PyYAML, which is an extra: `id` is scalar, sequence or mapping."""
_LARGEST_BYTES = 1_000_000
_DEEPEST = 100
"""Brackets in brackets: PyYAML takes seconds for a few thousand."""
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


@dataclass
class Section:
    """A mapping of the file. Each field is read by its name; `finish` refuses the fields that nobody has read."""

    path: str
    title: str
    node: Node
    _known: set[str] = field(default_factory=set)

    @property
    def line(self) -> int:
        """The line on which it begins."""
        return int(self.node.start_mark.line) + 1

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text or a number, as it is written."""
        node = self._find(name)
        return default if node is None else self.read_text(name, node)

    def require(self, name: str) -> str:
        """A text that must be there."""
        text = self.text(name)
        if not text:
            raise self.error(f"{self.title} needs {name}")
        return text

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """One of a few words."""
        text = self.text(name, default) or ""
        if text not in known:
            near = get_close_matches(text, known, n=1)
            hint = f"did you mean {near[0]}?" if near else None
            raise self.error(f"{name} is {text!r}, not one of {', '.join(known)}", self._find(name), hint=hint)
        return text

    def flag(self, name: str) -> bool:
        """Whether a field is true; false by default."""
        text = (self.text(name, "false") or "").lower()
        if text not in (*_TRUE, *_FALSE):
            raise self.error(f"{name} is {text!r}, neither true nor false", self._find(name))
        return text in _TRUE

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, or a single one."""
        node = self._find(name)
        if node is None:
            return ()
        if node.id == "scalar":
            return (self.read_text(name, node),)
        if node.id != "sequence":
            raise self.error(f"{name} is not a list", node)
        return tuple(self.read_text(name, item) for item in node.value)

    def pairs(self, name: str) -> dict[str, str]:
        """A mapping of texts."""
        section = self.section(name)
        return {} if section is None else {key: section.read_text(key, node) for key, node in section.items()}

    def section(self, name: str) -> Section | None:
        """A mapping below this one."""
        node = self._find(name)
        return None if node is None else self._open(name, node)

    def sections(self, name: str) -> list[Section]:
        """A list of mappings below this one."""
        node = self._find(name)
        if node is None:
            return []
        if node.id != "sequence":
            raise self.error(f"{name} is not a list", node)
        return [self._open(f"{name}, entry {number}", item) for number, item in enumerate(node.value, 1)]

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return self._find(name) is not None

    def is_text(self, name: str) -> bool:
        """Whether the field is there and has a text, no list and no mapping."""
        node = self._find(name)
        return node is not None and node.id == "scalar"

    def items(self) -> Iterator[tuple[str, Node]]:
        """All fields in order."""
        for key, value in self.node.value:
            yield str(key.value), value

    def finish(self) -> None:
        """Raise Invalid for a field that has no meaning here."""
        for key, _ in self.node.value:
            if key.value not in self._known:
                near = get_close_matches(str(key.value), sorted(self._known), n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(self._known))}"
                raise self.error(f"{self.title} has no field {str(key.value)[:80]!r}", key, hint=hint)

    def error(self, text: str, node: Node | None = None, *, hint: str | None = None) -> Invalid:
        """An error about a field of this section, or about the section."""
        line = self.line if node is None else int(node.start_mark.line) + 1
        return Invalid(f"{self.path}, line {line}: {text}", hint=hint)

    def field_error(self, name: str, text: str, *, hint: str | None = None) -> Invalid:
        """An error about one field."""
        return self.error(text, self._find(name), hint=hint)

    def _find(self, name: str) -> Node | None:
        self._known.add(name)
        return next((value for key, value in self.node.value if key.value == name), None)

    def read_text(self, name: str, node: Node) -> str:
        """The text of a node."""
        if node.id != "scalar" or node.tag == "tag:yaml.org,2002:null":
            raise self.error(f"{name} is not a text", node)
        return str(node.value)

    def _open(self, title: str, node: Node) -> Section:
        if node.id != "mapping":
            raise self.error(f"{title} is not a mapping", node)
        section = Section(self.path, title, node)
        _check_keys(section)
        return section


def read_yaml(path: Path, *, extra: str, page: str) -> Section:
    """Read a file that has one mapping. `extra` of the client brings PyYAML, and `page` has an example.

    Raises Invalid for what is no such file, FirnError without PyYAML.
    """
    try:
        import yaml  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise FirnError("PyYAML is not installed", hint=f"pip install 'firn[{extra}]'") from error
    text = _read_text(path)
    _check_depth(path, text)
    try:
        events: list[Any] = list(yaml.parse(text, Loader=yaml.SafeLoader))
        node: Node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        raise Invalid(f"{path}{line}: {error.problem or 'this is no YAML'}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise Invalid(f"{path} is no YAML") from error
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise Invalid(f"{path}, line {_find_line(event)}: references are not allowed here")
    if node is None or node.id != "mapping":
        raise Invalid(f"{path} has no fields", hint=f"{page} has an example")
    section = Section(str(path), "the file", node)
    _check_keys(section)
    return section


def _find_line(event: Node) -> int:
    return int(event.start_mark.line) + 1


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    if len(data) > _LARGEST_BYTES:
        raise Invalid(f"{path} is larger than {_LARGEST_BYTES:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8") from error


def _check_depth(path: Path, text: str) -> None:
    """Raise Invalid for too many brackets that are open at once, those in texts included."""
    depth, line = 0, 1
    for character in text:
        line += character == "\n"
        depth += (character in "[{") - (character in "]}")
        if depth > _DEEPEST:
            raise Invalid(f"{path}, line {line}: more than {_DEEPEST} brackets in each other")


def _check_keys(section: Section) -> None:
    """Raise Invalid for a field that comes twice, or whose name is no text."""
    seen: set[str] = set()
    for key, _ in section.node.value:
        if key.id != "scalar":
            raise section.error("the name of a field is not a text", key)
        if key.value in seen:
            raise section.error(f"{key.value} comes twice", key)
        seen.add(str(key.value))
