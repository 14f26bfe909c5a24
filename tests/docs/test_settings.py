from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import BaseModel

from server.settings import Settings, load_settings
from server.settings_group import Group

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "settings.md").read_text(encoding="utf-8")


def described(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every setting as its row: name, variable, default, meaning."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Group):
            yield from described(field.annotation, f"{prefix}{name}.")
            continue
        default = field.get_default(call_default_factory=True)
        variable = f"FIRN_{prefix}{name}".upper().replace(".", "__")
        yield f"{prefix}{name}", variable, "–" if default in (None, {}) else f"`{default}`", field.description or ""


def test_every_setting_is_on_the_page_with_its_default_and_meaning() -> None:
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| (–|`[^`]*`) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == list(described(Settings))


def test_the_example_file_is_one(tmp_path: Path) -> None:
    example = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert example is not None
    file = tmp_path / "firn.toml"
    file.write_text(example[1], encoding="utf-8")
    settings = load_settings(file)
    wanted = tomllib.loads(example[1])
    assert (settings.port, settings.warehouse, settings.lease.seconds) == (
        wanted["port"],
        wanted["warehouse"],
        wanted["lease"]["seconds"],
    )


@pytest.mark.parametrize("page", ["settings.md", "security.md"])
def test_examples_of_settings_can_be_loaded(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    examples = re.findall(r"^ *```toml\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        file = tmp_path / "firn.toml"
        file.write_text(dedent(example), encoding="utf-8")
        assert load_settings(file).model_fields_set
