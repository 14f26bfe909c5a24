"""Every reference leads somewhere: rules, sections, decisions, pages with their anchors, and paths of code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOLS = "docs/protocols.md"
TEXT = (".py", ".md", ".ts", ".tsx", ".toml", ".yaml", ".yml", "Makefile", "Dockerfile")
GENERATED = ("web/src/api/generated.ts", "web/package-lock.json")
MARKDOWN_LINK = re.compile(r"\]\((?P<to>[^)\s]+)\)")
PAGE = re.compile(r"\b(?P<page>docs/[\w/.-]+?\.md)(?:#(?P<anchor>[\w-]+))?")
RULES = re.compile(r"\b[Rr]ules?\s+(?P<numbers>\d\.\d{1,2}(?:(?:,|\s+and|–|-)\s*\d\.\d{1,2})*)")
DECISIONS = re.compile(r"\b[Dd]ecisions?\s+(?P<numbers>\d+(?:(?:,|\s+and|–|-)\s*\d+)*)")
BARE = re.compile(
    r"\b[Aa]rchitecture(?:\s+section)?\s+\d+(?:\.\d+)?|\b[Pp]rotocols?`?\s+(?:section\s+\d|\d+\.\d)|\bsection\s+\d[\d.]*"
)
PACKAGES = "catalog|server|optimizer|firn|migrations|tests|bench|demo|deploy|web"
CODE_PATH = re.compile(rf"`(?P<path>(?:{PACKAGES})/[\w./*…-]+)`")
OUTSIDE = {
    "server/console",
    "web/dist",
    "catalog/maintenance/census.py",
    "firn/protocol/tasks/census.py",
    "optimizer/jobs/census.py",
}
"""Paths that only a build makes, and those of the kind of job that docs/adding-a-job-kind.md makes up."""


def slug(heading: str) -> str:
    """The anchor that a heading of Markdown gets."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return frozenset(slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE))


@cache
def rules() -> frozenset[str]:
    """The numbers that docs/protocols.md gives to its rules."""
    text = (ROOT / PROTOCOLS).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^(?:\| )?\*\*(?:Rule )?(\d\.\d{1,2})", text, re.MULTILINE))


@cache
def tracked() -> dict[str, str]:
    """The text files of the repository."""
    listed = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    paths = [path for path in listed.splitlines() if path.endswith(TEXT) and path not in GENERATED]
    own = Path(__file__).relative_to(ROOT).as_posix()
    return {path: (ROOT / path).read_text("utf-8") for path in paths if path != own and (ROOT / path).is_file()}


def numbers(reference: str) -> Iterator[str]:
    """Each number of "2.1 and 2.2" and of "59–61"."""
    for first, last in re.findall(r"([\d.]*\d)(?:[–-]([\d.]*\d))?", reference):
        yield first
        if last and "." not in first:
            yield from map(str, range(int(first) + 1, int(last) + 1))
        elif last:
            yield last


def broken_links(path: str, text: str) -> Iterator[str]:
    """Links of a Markdown page to files that are not there, or to headings that they do not have."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in MARKDOWN_LINK.finditer(text):
        if re.match(r"[a-z]+:|/", link["to"]):
            continue
        target, _, anchor = link["to"].partition("#")
        page = (ROOT / path).parent / target if target else ROOT / path
        if not page.exists() or (anchor and page.suffix == ".md" and anchor not in anchors(page.resolve())):
            yield link["to"]


def broken_pages(text: str) -> Iterator[str]:
    for named in PAGE.finditer(text):
        page = ROOT / named["page"]
        if not page.is_file() or (named["anchor"] and named["anchor"] not in anchors(page)):
            yield named[0]


def broken_rules(path: str, text: str) -> Iterator[str]:
    for named in RULES.finditer(text):
        if not set(numbers(named["numbers"])) <= rules() or ("protocols.md" not in text and path != PROTOCOLS):
            yield named[0]


def broken_decisions(text: str) -> Iterator[str]:
    for named in DECISIONS.finditer(text):
        for number in numbers(named["numbers"]):
            if not [*(ROOT / "docs" / "decisions").glob(f"{int(number):04}-*.md")]:
                yield named[0]


def bare_sections(text: str) -> Iterator[str]:
    """References to sections of documents that have no numbered sections."""
    for named in BARE.finditer(text):
        before = text[max(0, named.start() - 30) : named.start()]
        if not re.search(r"RFC \d+,\s*$", before):
            yield named[0]


def broken_code_paths(text: str) -> Iterator[str]:
    for named in CODE_PATH.finditer(text):
        path = named["path"].rstrip("/").replace("…", "*")
        if path not in OUTSIDE and not [*ROOT.glob(path)]:
            yield named["path"]


def complaints() -> Iterator[str]:
    for path, text in tracked().items():
        broken = [*broken_pages(text), *broken_rules(path, text), *broken_decisions(text), *bare_sections(text)]
        if path.endswith(".md"):
            broken += [*broken_links(path, text), *broken_code_paths(text)]
        yield from (f"{path}: {reference}" for reference in broken)


def test_every_reference_leads_somewhere() -> None:
    assert [*complaints()] == []


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        ("docs/protocols.md, rule 3.4", False),
        ("docs/protocols.md, rules 2.1 and 2.2", False),
        ("docs/protocols.md, rule 9.9", True),
        ("rule 3.4, without its page", True),
        ("docs/protocols.md#jobs-and-leases", False),
        ("docs/protocols.md#no-such-heading", True),
        ("docs/nowhere.md", True),
        ("decision 39", False),
        ("decisions 59–61", False),
        ("decisions 12 and 9999", True),
        ("architecture 5.5", True),
        ("protocol section 2", True),
        ("RFC 9110, section 12.5.3", False),
    ],
)
def test_a_broken_reference_is_found(text: str, is_broken: bool) -> None:  # noqa: FBT001
    broken = [*broken_pages(text), *broken_rules("x.py", text), *broken_decisions(text), *bare_sections(text)]
    assert bool(broken) is is_broken


def test_a_broken_link_of_a_page_is_found() -> None:
    text = "[a](keyed-tables.md) [b](keyed-tables.md#nowhere) [c](gone.md) `catalog/jobs/job.py` `catalog/gone.py`"
    assert [*broken_links("docs/x.md", text)] == ["keyed-tables.md#nowhere", "gone.md"]
    assert [*broken_code_paths(text)] == ["catalog/gone.py"]
