"""Trino's files: fetched once for all checkouts of this user, then unpacked beside the jars.

`python -m tests.integration.engines.trino_files` fetches them and prints where they are.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET
from zipfile import ZipFile

from firn.embedded.errors import JarsUnavailable
from firn.embedded.jars import cache_dir, run_ivy
from tests.integration.fetching import report

WANTED = Path(__file__).with_name("trino.xml")
SETTINGS = Path(__file__).with_name("trino-settings.xml")
VERSION = str(ET.parse(WANTED).findall(".//dependency")[0].get("rev"))


def home() -> Path:
    """Where the server's `lib` and `plugin` are once they were fetched, whole: they are moved there."""
    return cache_dir() / f"trino-{VERSION}"


def fetch() -> Path:
    """The server and its Iceberg plugin, fetched and unpacked if they are not there yet; Ivy compares checksums.

    Raises JarsUnavailable, with Ivy's own words, and leaves nothing half unpacked.
    """
    if home().is_dir():
        return home()
    cache_dir().mkdir(parents=True, exist_ok=True)
    # Beside its final place, so that moving it there is one step. The archives go with the directory.
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        ivy_output = run_ivy("-settings", str(SETTINGS), "-cache", str(Path(scratch, "ivy")), "-ivy", str(WANTED))
        archives = [path for path in Path(scratch, "ivy").rglob("*") if path.suffix in {".gz", ".zip"}]
        if len(archives) != 2:
            raise JarsUnavailable(f"Ivy did not fetch Trino {VERSION}. Its last words:\n{ivy_output}")
        for archive in archives:
            _unpack(archive, Path(scratch, "home"))
        Path(scratch, "home").rename(home())
    return home()


def _unpack(archive: Path, into: Path) -> None:
    if archive.suffix == ".zip":
        with ZipFile(archive) as plugin:
            plugin.extractall(into / "plugin")  # in a directory of its own
        return
    with tarfile.open(archive) as server:
        for member in server:
            _, _, member.name = member.name.partition("/")
            if member.name.startswith("lib/"):
                server.extract(member, into, filter="data")


if __name__ == "__main__":
    sys.exit(report(fetch))
