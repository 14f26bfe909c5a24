"""Reads the configuration of a Hudi Streamer: a properties file, or a script that starts it with `spark-submit`.

Nothing is run. A file that the configuration names is read only if it lies beside it. No setting is trusted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from firn.errors import Invalid

_LARGEST: Final = 1024 * 1024
MOST_TABLES: Final = 200
_PREFIXES: Final = ("hoodie.streamer.", "hoodie.deltastreamer.")
_SCRIPT: Final = re.compile(r"\bspark-submit\b|--hoodie-conf\b|--target-table\b")
_SUBMIT: Final = "spark-submit"
_CONTINUED: Final = re.compile(r"\\[ \t]*\r?\n")


@dataclass(frozen=True)
class StreamerSettings:
    """The settings of one target table: properties by name, and options of the command by name with dashes.

    `used` collects the names that were read, so that an import can report the others.
    """

    values: Mapping[str, str]
    folder: Path
    used: set[str] = field(default_factory=set)

    def get(self, *names: str) -> str:
        """The value of the first of some names that has one; empty if none has."""
        self.used.update(names)
        return next((value for name in names if (value := self.values.get(name, "").strip())), "")

    def get_streamer(self, *names: str) -> str:
        """The same for properties of the Streamer, with today's prefix or the former one."""
        return self.get(*(prefix + name for name in names for prefix in _PREFIXES))

    def read_beside(self, name: str) -> str:
        """The text of a file that a setting names. Raises Invalid if none of this name lies beside the settings."""
        return _read_text(_find_beside(self.folder, name))

    def list_unused(self) -> list[str]:
        """The properties of Hudi that nobody has read."""
        return sorted(name for name in self.values if name.startswith("hoodie.") and name not in self.used)


def read_streamer(path: Path) -> list[StreamerSettings]:
    """The settings of each target table of a file. Raises Invalid if it has none, or cannot be read."""
    text, folder = _read_text(path), path.parent
    starts = [*_read_script(text, folder)] if _SCRIPT.search(text) else [_read_properties(text, folder)]
    tables = [settings for values in starts for settings in _split_tables(values, folder)]
    if not tables:
        raise Invalid(
            f"{path} configures no Hudi Streamer", hint="name its properties file, or the script that starts it"
        )
    if len(tables) > MOST_TABLES:
        raise Invalid(f"{path} has more than {MOST_TABLES} tables", hint="import a part of them")
    return tables


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise Invalid(f"{path} is no file", hint="name a properties file, or the script that starts the Streamer")
    if path.stat().st_size > _LARGEST:
        raise Invalid(f"{path} is larger than {_LARGEST:,} bytes")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8") from error


def _find_beside(folder: Path, name: str) -> Path:
    """The file in the folder with the last part of a path or URL as its name; a link may not lead elsewhere."""
    path = folder / (PurePosixPath(name.replace("\\", "/").replace("\0", "")).name or "unnamed")
    if not path.is_file() or path.resolve().parent != folder.resolve():
        raise Invalid(f"{name[:200]} is not beside the settings", hint=f"copy it to {folder}")
    return path


def _read_properties(text: str, folder: Path, seen: frozenset[Path] = frozenset()) -> dict[str, str]:
    """Properties as Hudi reads them: `name=value` to a line, `include=FILE`, comments with #."""
    values: dict[str, str] = {}
    for line in _CONTINUED.sub(" ", text).splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or name.startswith(("#", "!")):
            continue
        if name != "include":
            values[name] = value
            continue
        path = _find_beside(folder, value)
        if path in seen:
            raise Invalid(f"{path} includes itself")
        values |= _read_properties(_read_text(path), folder, seen | {path})
    return values


def _read_script(text: str, folder: Path) -> Iterator[dict[str, str]]:
    """The settings of each command that starts a Streamer. Properties of the command replace those of its file."""
    try:
        words = shlex.split(_CONTINUED.sub(" ", text), comments=True)
    except ValueError as error:
        raise Invalid(f"the script cannot be read: {error}", hint="write the settings as properties") from error
    starts = [place for place, word in enumerate(words) if PurePosixPath(word).name == _SUBMIT] or [0]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        options, properties = _read_words(words[start:end])
        if options.get("--props"):
            path = _find_beside(folder, options["--props"])
            properties = _read_properties(_read_text(path), folder) | properties
        if properties or "--target-table" in options:
            yield options | properties


def _read_words(words: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    options: dict[str, str] = {}
    properties: dict[str, str] = {}
    for place, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        after = words[place + 1] if place + 1 < len(words) else ""
        value = value if equals else "true" if after.startswith("--") else after
        if name == "--hoodie-conf":
            key, _, text = value.partition("=")
            properties[key.strip()] = text.strip()
        else:
            options[name] = value
    return options, properties


def _split_tables(values: dict[str, str], folder: Path) -> Iterator[StreamerSettings]:
    """One entry for each table of a Streamer of many tables; each has a file of its own, over the common properties."""
    settings = StreamerSettings(values, folder)
    names = settings.get_streamer("ingestion.tablesToBeIngested", "ingestion.tables.to.be.ingested")
    for name in filter(None, (part.strip() for part in names.split(","))):
        database, _, table = name.rpartition(".")
        file = settings.get_streamer(f"ingestion.{name}.configFile", f"ingestion.{name}.config.file")
        own = _read_properties(settings.read_beside(file or f"{database}_{table}_config.properties"), folder)
        target = {"hoodie.datasource.hive_sync.database": database, "hoodie.datasource.hive_sync.table": table}
        common = {key: value for key, value in values.items() if ".ingestion." not in key}
        yield StreamerSettings({**target, **common, **own}, folder)
    if not names and any(key.startswith("hoodie.") for key in values):
        yield settings
