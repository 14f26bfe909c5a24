"""Jinja in SQL files: `ref`, `source`, `var`, conditions and loops, and from each place of the SQL back to the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firn.errors import FirnError, Invalid
from firn.names import split_name
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.parsing import check_size
from firn.protocol.names import quote_name

try:
    from jinja2 import Environment, TemplateSyntaxError, nodes
except ModuleNotFoundError as error:
    raise FirnError("Jinja2 is not installed", hint="pip install 'firn[pipelines]'") from error

from firn.pipelines.template_values import LONGEST_TEXT, Expressions, Value, refuse, write_text

_MOST_NUMBERS = 10_000
_STATEMENTS = "there are {% if %}, {% for %} and {% set name = value %}"


@dataclass(frozen=True)
class Reference:
    """A `ref('name')`, with its line."""

    parts: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class _Piece:
    """A part of the rendered text: where it begins there and in the file; copied texts agree letter by letter."""

    begin: int
    source: int
    is_copied: bool


@dataclass(frozen=True)
class Rendered:
    """The SQL that a template gives, and the names that it refers to."""

    text: str
    references: tuple[Reference, ...]
    _source: str = field(repr=False)
    _pieces: tuple[_Piece, ...] = field(repr=False)

    def find_source(self, place: Place) -> Place:
        """The place in the file for one in the text."""
        if place.line is None or not self._pieces:
            return place
        offset = _find_offset(self.text, place.line, place.column or 1)
        number = bisect_right(self._pieces, offset, key=lambda piece: piece.begin)
        piece = self._pieces[max(number - 1, 0)]
        source = piece.source + (offset - piece.begin if piece.is_copied else 0)
        line = self._source.count("\n", 0, source) + 1
        column = source - self._source.rfind("\n", 0, source)
        return Place(line, None if place.column is None else column, place.path)


def render(text: str, variables: Mapping[str, Value]) -> Rendered:
    """Render a template. Raises InvalidDefinition with line for what is wrong or not allowed in it."""
    check_size(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    environment = Environment(keep_trailing_newline=True)  # noqa: S701 -- it only parses; the result is SQL, not HTML
    try:
        template = environment.parse(text)
        places = list(_find_places(text, environment.lex(text)))
        return _Renderer(text, places, variables).render(template)
    except TemplateSyntaxError as error:
        reason = f"the template cannot be parsed: {(error.message or '')[:200]}"
        raise InvalidDefinition(
            reason, line=error.lineno, hint="write {% raw %} around braces that mean themselves"
        ) from error
    except RecursionError as error:
        raise InvalidDefinition("the template nests too deeply") from error


class _Renderer:
    def __init__(self, source: str, places: Sequence[int], variables: Mapping[str, Value]) -> None:
        self.source = source
        self.places = iter(places)
        self.variables = variables
        functions = {"ref": self._ref, "source": self._source_table, "var": self._var, "range": self._range}
        self.expressions = Expressions(functions)
        self.references: list[Reference] = []
        self.parts: list[str] = []
        self.pieces: list[_Piece] = []
        self.length = 0
        self.offsets: dict[int, int] = {}

    def render(self, template: nodes.Template) -> Rendered:
        self._locate(template.body)
        self._write_all(template.body, {})
        return Rendered("".join(self.parts), tuple(self.references), self.source, tuple(self.pieces))

    def _locate(self, body: Sequence[nodes.Node]) -> None:
        """Remember where each text and each `{{` stands: jinja2's tree knows only lines, but keeps their order."""
        for node in body:
            if isinstance(node, nodes.Output):
                for part in node.nodes:
                    self.offsets[id(part)] = next(self.places)
            elif isinstance(node, nodes.If):
                self._locate(node.body)
                self._locate(node.elif_)
                self._locate(node.else_)
            elif isinstance(node, nodes.For):
                self._locate(node.body)
                self._locate(node.else_)
            elif not isinstance(node, nodes.Assign):
                refuse(node, f"{{% {type(node).__name__.lower()} %}} is not allowed in a template", _STATEMENTS)

    def _write_all(self, body: Sequence[nodes.Node], names: dict[str, Value]) -> None:
        for node in body:
            self.expressions.budget.spend(node.lineno)
            if isinstance(node, nodes.Output):
                for part in node.nodes:
                    self._write(part, names)
            elif isinstance(node, nodes.If):
                self._choose(node, names)
            elif isinstance(node, nodes.For):
                self._repeat(node, names)
            elif isinstance(node, nodes.Assign):
                self._assign(node.target, self.expressions.compute(node.node, names), names)

    def _write(self, part: nodes.Expr, names: Mapping[str, Value]) -> None:
        is_copied = isinstance(part, nodes.TemplateData)
        text = part.data if isinstance(part, nodes.TemplateData) else self._compute_text(part, names)
        self.pieces.append(_Piece(self.length, self.offsets[id(part)], is_copied))
        self.parts.append(text)
        self.length += len(text)
        if self.length > LONGEST_TEXT:
            refuse(part, f"the template gives more than {LONGEST_TEXT:,} characters")

    def _compute_text(self, part: nodes.Expr, names: Mapping[str, Value]) -> str:
        return write_text(part, self.expressions.compute(part, names))

    def _choose(self, node: nodes.If, names: dict[str, Value]) -> None:
        for branch in (node, *node.elif_):
            if self.expressions.compute(branch.test, names):
                self._write_all(branch.body, names)
                return
        self._write_all(node.else_, names)

    def _repeat(self, node: nodes.For, names: dict[str, Value]) -> None:
        if node.recursive or node.test is not None:
            refuse(node, "loops have neither a condition nor `recursive`", "write {% if %} inside of the loop")
        values = self.expressions.compute(node.iter, names)
        if not isinstance(values, list):
            refuse(node, "a loop needs a list", "write a list, a variable that is one, or range(n)")
        for index, value in enumerate(values):
            self.expressions.budget.spend(node.lineno)
            loop: dict[str, Value] = {"index": index + 1, "index0": index, "first": index == 0}
            loop |= {"last": index + 1 == len(values), "length": len(values)}
            inner = {**names, "loop": loop}
            self._assign(node.target, value, inner)
            self._write_all(node.body, inner)
        if not values:
            self._write_all(node.else_, names)

    def _assign(self, target: nodes.Node, value: Value, names: dict[str, Value]) -> None:
        if isinstance(target, nodes.Name):
            names[target.name] = value
        elif isinstance(target, nodes.Tuple) and isinstance(value, list) and len(value) == len(target.items):
            for part, item in zip(target.items, value, strict=True):
                self._assign(part, item, names)
        else:
            refuse(target, "this cannot be assigned here", "write {% set name = value %}")

    def _ref(self, node: nodes.Call, values: Sequence[Value]) -> Value:
        if len(values) != 1:
            refuse(node, "ref() takes the name of one table", "packages and versions of dbt have no meaning here")
        parts = self._read_name(node, values[0])
        self.references.append(Reference(tuple(parts), node.lineno))
        return ".".join(map(quote_name, parts))

    def _source_table(self, node: nodes.Call, values: Sequence[Value]) -> Value:
        if len(values) != 2:
            refuse(node, "source() takes a namespace and a table")
        return ".".join(quote_name(part) for value in values for part in self._read_name(node, value))

    def _read_name(self, node: nodes.Call, value: Value) -> list[str]:
        if not isinstance(value, str):
            refuse(node, "a name is a text in quotes")
        try:
            return list(split_name(value))
        except Invalid as error:
            raise InvalidDefinition(error.message, line=node.lineno, hint=error.hint) from error

    def _var(self, node: nodes.Call, values: Sequence[Value]) -> Value:
        if not 1 <= len(values) <= 2 or not isinstance(values[0], str):
            refuse(node, "var() takes the name of a variable, and a value if there is none")
        if values[0] in self.variables:
            return self.variables[values[0]]
        if len(values) == 1:
            refuse(node, f"there is no variable {values[0][:80]}", "write it in firn-pipeline.yml, below `vars`")
        return values[1]

    def _range(self, node: nodes.Call, values: Sequence[Value]) -> Value:
        numbers = [value for value in values if isinstance(value, int)]
        if len(numbers) != len(values) or not 1 <= len(values) <= 3:
            refuse(node, "range() takes one to three whole numbers")
        span = range(*numbers) if numbers[2:] != [0] else range(_MOST_NUMBERS + 1)
        if len(span) > _MOST_NUMBERS:
            refuse(node, f"range() gives more than {_MOST_NUMBERS:,} numbers")
        return list(span)


def _find_places(text: str, tokens: Iterator[tuple[int, str, str]]) -> Iterator[int]:
    """The offsets of texts and of `{{`, in the order of the tree. The tokens lack white space that `-` takes away."""
    position = 0
    for _, kind, value in tokens:
        if not value:
            continue
        start = text.index(value, position)
        position = start + len(value)
        if kind in ("data", "variable_begin"):
            yield start


def _find_offset(text: str, line: int, column: int) -> int:
    offset = 0
    for _ in range(line - 1):
        following = text.find("\n", offset)
        if following < 0:
            break
        offset = following + 1
    return offset + column - 1
