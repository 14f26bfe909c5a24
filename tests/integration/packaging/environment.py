"""Virtual environments that hold wheels of this repository and exactly the distributions that these require.

No index is asked. A required distribution is linked, file by file, from the environment that runs the tests. One that a
wheel forgets to require is therefore missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = {"firn", "firn-server"}


@dataclass(frozen=True)
class Done:
    """One command of an environment: how it ended and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Environment:
    """One virtual environment."""

    root: Path

    @property
    def site(self) -> Path:
        return next(self.root.glob("lib/python*/site-packages"))

    def program(self, name: str) -> str:
        return str(self.root / "bin" / name)

    def run(self, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        """Run a program outside the repository, with none of its settings."""
        done = subprocess.run(
            [self.program(program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=self.root,
            env=self.settings(env),
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def settings(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """A child's environment variables: those of this process without PYTHONPATH and Firn's own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FIRN_"))}
        return kept | dict(env or {})

    def packages(self) -> set[str]:
        """The names that can be imported from the wheels of this repository."""
        names = set()
        for wheel in self.site.glob("firn*.dist-info"):
            files = PathDistribution(wheel).files or []
            names |= {file.parts[0] for file in files if file.suffix == ".py"}
        return names


def make_environment(root: Path, wheels: Sequence[Path], *, extras: Iterable[str] = ()) -> Environment:
    """An environment with these wheels, the distributions that they require, and those of the extras."""
    venv.create(root, symlinks=True, with_pip=False)
    environment = Environment(root)
    for required in _closure([_metadata(wheel) for wheel in wheels], set(extras)):
        _link(required, environment.site)
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment.program("python")]
    subprocess.run([*install, "install", "--quiet", "--no-deps", "--no-index", *map(str, wheels)], check=True)
    return environment


def _metadata(wheel: Path) -> Distribution:
    """The metadata of a wheel that is not installed."""
    [directory] = [entry for entry in ZipPath(wheel).iterdir() if entry.name.endswith(".dist-info")]
    return PathDistribution(directory)


def _closure(roots: Sequence[Distribution], extras: set[str]) -> Iterator[Distribution]:
    """The distributions that the roots require, directly or not, without those of this repository."""
    seen = {(name, "") for name in OURS}
    open_ends = [(root, extra) for root in roots for extra in ("", *extras)]
    while open_ends:
        requirement_, extra = open_ends.pop()
        for requirement in map(Requirement, requirement_.requires or []):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(requirement.name)
            for wanted in {"", *requirement.extras} - {extra for other, extra in seen if other == name}:
                seen.add((name, wanted))
                required = distribution(name)
                open_ends.append((required, wanted))
                if not wanted:
                    yield required


def _link(required: Distribution, site: Path) -> None:
    """Link what a distribution has put into the site-packages of the running environment."""
    for name in {file.parts[0] for file in required.files or [] if file.parts[0] != ".."}:
        source, link = Path(str(required.locate_file(name))), site / name
        if source.is_dir() and link.is_dir() and not link.is_symlink():
            raise AssertionError(f"{name} belongs to two distributions")
        if not link.exists():
            link.symlink_to(source)
