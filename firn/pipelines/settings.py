"""The two YAML files of a pipeline: `spark-pipeline.yml`, as Spark defines it, and `firn-pipeline.yml` beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from firn.names import split_name
from firn.pipelines.code_settings import NO_CODE, CodeSettings, read_code_settings
from firn.pipelines.outputs import PLAIN_OUTPUT, Output, read_audit, read_max_commits, read_on_change, read_output
from firn.pipelines.triggers import read_trigger
from firn.pipelines.validate_settings import read_validators
from firn.protocol.names import join_name
from firn.protocol.pipeline_outputs import AuditMode, OnChange
from firn.protocol.pipelines import BY_HAND, Refresh, Trigger
from firn.protocol.validators import Validator
from firn.yaml_reading import Node, Section, read_yaml

SPARK_FILES = ("spark-pipeline.yml", "spark-pipeline.yaml")
FIRN_FILES = ("firn-pipeline.yml", "firn-pipeline.yaml")
Variable: TypeAlias = str | int | bool | list[str | int | bool]
_MOST_DIGITS = 18
_EXTRA, _PAGE = "pipelines", "docs/pipelines.md"


@dataclass(frozen=True)
class SparkSettings:
    """The name of the pipeline, the catalog and namespace of names that have none, and patterns of its files."""

    name: str
    catalog: str | None
    namespace: str | None
    patterns: tuple[str, ...]
    path: str = ""


@dataclass(frozen=True)
class TableSettings:
    """Settings of one table in `firn-pipeline.yml`, with the line on which they begin."""

    line: int
    key: tuple[str, ...] = ()
    refresh: Refresh | None = None
    trigger: Trigger | None = None
    validators: tuple[Validator, ...] = ()
    output: Output = PLAIN_OUTPUT
    code: CodeSettings = NO_CODE


@dataclass(frozen=True)
class FirnSettings:
    """`firn-pipeline.yml`. Names of tables are as they are written there."""

    path: str = ""
    refresh: Refresh = Refresh.AUTO
    trigger: Trigger = BY_HAND
    on_change: OnChange = OnChange.ASK
    audit: AuditMode = AuditMode.AUTO
    max_commits: int | None = None
    tables: Mapping[str, TableSettings] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    deterministic: tuple[str, ...] = ()
    variables: Mapping[str, Variable] = field(default_factory=dict)
    consistent: tuple[tuple[str, ...], ...] = ()
    consistent_line: int = 0


def read_spark_settings(path: Path) -> SparkSettings:
    """Read `spark-pipeline.yml`. Raises Invalid with the line of what is wrong."""
    file = read_yaml(path, extra=_EXTRA, page=_PAGE)
    name, catalog = file.require("name"), file.text("catalog")
    namespace = file.text("database") or file.text("schema")
    file.text("storage")
    file.section("configuration")  # settings of Spark, which Firn does not read
    patterns = tuple(_read_pattern(library) for library in file.sections("libraries"))
    file.finish()
    return SparkSettings(name, catalog, namespace, patterns or ("transformations/**",), str(path))


def read_firn_settings(path: Path) -> FirnSettings:
    """Read `firn-pipeline.yml`. Raises Invalid with the line of what is wrong."""
    file = read_yaml(path, extra=_EXTRA, page=_PAGE)
    file.choice("version", ("1",), "1")
    defaults = file.section("defaults")
    refresh, trigger, on_change, audit = Refresh.AUTO, BY_HAND, OnChange.ASK, AuditMode.AUTO
    max_commits = None
    if defaults is not None:
        refresh, trigger = _read_refresh(defaults) or refresh, read_trigger(defaults) or trigger
        on_change, audit = read_on_change(defaults) or on_change, read_audit(defaults) or audit
        max_commits = read_max_commits(defaults)
        defaults.finish()
    tables = {name: _read_table(section) for name, section in _named_sections(file, "tables")}
    sources = {name: _read_source(section) for name, section in _named_sections(file, "sources")}
    deterministic = file.texts("deterministic")
    variables = _read_variables(file.section("vars"))
    consistent, line = _read_sets(file)
    file.finish()
    return FirnSettings(
        path=str(path),
        refresh=refresh,
        trigger=trigger,
        on_change=on_change,
        audit=audit,
        max_commits=max_commits,
        tables=tables,
        sources=sources,
        deterministic=deterministic,
        variables=variables,
        consistent=consistent,
        consistent_line=line,
    )


def read_schema(path: Path) -> dict[str, dict[str, str]]:
    """Read a file of `TABLE: {COLUMN: TYPE}`. Raises Invalid with the line of what is wrong."""
    file = read_yaml(path, extra=_EXTRA, page=_PAGE)
    return {name: file.pairs(key) for name, key in ((_normalize(key), key) for key, _ in file.items())}


def _read_pattern(library: Section) -> str:
    glob = library.section("glob")
    if glob is None:
        raise library.error("a library needs glob: {include: PATTERN}")
    pattern = glob.require("include")
    glob.finish()
    library.finish()
    return pattern


def _read_table(section: Section) -> TableSettings:
    key = tuple(name.lower() for name in section.texts("key"))
    settings = TableSettings(
        section.line,
        key,
        _read_refresh(section),
        read_trigger(section),
        read_validators(section),
        read_output(section),
        read_code_settings(section),
    )
    section.finish()
    return settings


def _read_source(section: Section) -> dict[str, str]:
    columns = section.pairs("columns")
    section.finish()
    return columns


def _read_variables(section: Section | None) -> dict[str, Variable]:
    """Variables of templates: texts, whole numbers, true and false, and lists of these."""
    if section is None:
        return {}
    return {
        name: [_read_variable(section, name, item) for item in node.value]
        if node.id == "sequence"
        else _read_variable(section, name, node)
        for name, node in section.items()
    }


def _read_variable(section: Section, name: str, node: Node) -> str | int | bool:
    text, kind = section.read_text(name, node), str(node.tag).rpartition(":")[2]
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    if kind == "int" and text.lstrip("+-").isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    return text


def _read_sets(file: Section) -> tuple[tuple[tuple[str, ...], ...], int]:
    """The sets of `consistent`, which is a list of names, or of such lists, and its line."""
    node = next((node for name, node in file.items() if name == "consistent"), None)
    if not file.has("consistent") or node is None:
        return (), 0
    line = int(node.start_mark.line) + 1
    if node.id != "sequence" or not any(item.id == "sequence" for item in node.value):
        return (tuple(map(_normalize, file.texts("consistent"))),), line
    if not all(item.id == "sequence" for item in node.value):
        hint = "write consistent: [a, b], or for several sets consistent: [[a, b], [c, d]]"
        raise file.field_error("consistent", "consistent has names and lists", hint=hint)
    sets = [[_normalize(file.read_text("consistent", name)) for name in item.value] for item in node.value]
    return tuple(map(tuple, sets)), line


def _read_refresh(section: Section) -> Refresh | None:
    text = section.text("refresh")
    return None if text is None else Refresh(section.choice("refresh", [str(policy) for policy in Refresh], "auto"))


def _named_sections(file: Section, name: str) -> list[tuple[str, Section]]:
    outer = file.section(name)
    if outer is None:
        return []
    sections = ((key, outer.section(key)) for key, _ in outer.items())
    return [(_normalize(key), section) for key, section in sections if section is not None]


def _normalize(name: str) -> str:
    return join_name(split_name(name))
