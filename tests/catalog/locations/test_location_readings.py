"""The location rule against a plain model: random encodings, schemes, slashes, dots and links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import LocationRefused
from catalog.locations.location_rule import AllowedLocations, FileRule, Root

PARTS = ("wh", "mine", "hidden", "landing", "data", "f")
LINKED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("wh", "mine", "link"): ("wh", "hidden"),
    ("wh", "mine", "out"): ("etc",),
    ("wh", "mine", "in"): ("wh", "mine", "data"),
    ("mnt",): ("wh",),
}
"""Links of the disk: a directory, and where it leads."""
WAREHOUSE, OWN, HIDDEN = ("wh",), ("wh", "mine"), ("wh", "hidden")


@dataclass(frozen=True)
class Disk:
    """The links as the operating system follows them, part by part."""

    def real_path(self, path: str) -> str:
        return "/" + "/".join(followed([part for part in path.split("/") if part and part != "."]))

    def is_link(self, path: str) -> bool:
        *above, name = [part for part in path.split("/") if part and part != "."]
        return (*followed(above), name) in LINKED


def followed(parts: Sequence[str]) -> tuple[str, ...]:
    """Where these parts of a path lead; `..` goes up from where a link has led."""
    at: tuple[str, ...] = ()
    for part in parts:
        at = at[:-1] if part == ".." else LINKED.get((*at, part), (*at, part))
    return at


def opened(location: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The model: what programs may open for this text, as storage and path with links followed.

    They decode percent signs never, once or until there are none, and cut the text at `?` and `#` or do not.
    """
    texts = [location]
    for _ in range(6):
        texts.append(decoded(texts[-1]))
    for text, cut in product(texts, (False, True)):
        plain = text.split("?", 1)[0].split("#", 1)[0] if cut else text
        schemes = ("file://localhost", "file://", "file:", "s3a://", "s3://", "")
        scheme = next(prefix for prefix in schemes if plain.startswith(prefix))
        rest = plain[len(scheme) :]
        if scheme.startswith("s3"):
            bucket, _, key = rest.partition("/")
            yield f"s3://{bucket}", tuple(part for part in key.split("/") if part)
        else:
            yield "file", followed([part for part in rest.split("/") if part and part != "."])


def decoded(text: str) -> str:
    """Percent signs decoded once, but for slashes: no program makes a partition's value a path."""
    decoded_text, at = "", 0
    while at < len(text):
        code = text[at + 1 : at + 3]
        is_code = text[at] == "%" and len(code) == 2 and all(sign in "0123456789abcdefABCDEF" for sign in code)
        if is_code and code.lower() != "2f" and int(code, 16) < 128:
            decoded_text, at = decoded_text + chr(int(code, 16)), at + 3
        else:
            decoded_text, at = decoded_text + text[at], at + 1
    return decoded_text


@st.composite
def spelled(draw: st.DrawFn, part: str) -> str:
    """A part of a path, some of its letters encoded, once or twice."""
    for _ in range(draw(st.integers(0, 2))):
        part = "".join(f"%{ord(sign):02X}" if draw(st.integers(0, 9)) == 0 else sign for sign in part)
        part = (
            quote(part, safe="%.?#=") if draw(st.booleans()) else part.replace("%", draw(st.sampled_from(("%", "%25"))))
        )
    return part


@st.composite
def locations(draw: st.DrawFn) -> str:
    scheme = draw(st.sampled_from(("", "file:", "file://", "file://localhost", "s3://bucket", "s3a://bucket")))
    begin = draw(st.sampled_from(((), ("wh",), OWN, OWN, HIDDEN, ("mnt",), ("wh", "mine", "link"))))
    odd = st.sampled_from((*PARTS, "..", ".", "", "link", "out", "in", "p=a%2F..%2Fb", "x#", "?x", "..?", "mnt", "etc"))
    parts = [draw(spelled(part)) for part in (*begin, *draw(st.lists(odd, max_size=5)))]
    return f"{scheme}/" + "/".join(parts)


DISK = Disk()
ALLOWED = AllowedLocations(catalog="lake", roots=(Root.of("/wh", DISK),))


def within(path: Sequence[str], directory: Sequence[str]) -> bool:
    return tuple(path[: len(directory)]) == tuple(directory)


@given(locations())
def test_a_directory_that_passes_lies_strictly_inside_however_it_is_read(location: str) -> None:
    try:
        readings = ALLOWED.check_directory(location, DISK)
    except LocationRefused:
        return
    for storage, path in opened(location):
        assert storage == "file"
        assert within(path, WAREHOUSE)
        assert path != WAREHOUSE
        assert "/" + "/".join(path) in readings  # or another table's place would not be found by it


@given(locations())
def test_a_file_that_passes_is_the_tables_own_or_allowed_and_nobody_elses_however_it_is_read(location: str) -> None:
    rule = FileRule(table="t", allowed=ALLOWED, own=["/wh/mine"], others=lambda _: ["file:///wh/hidden"], links=DISK)
    refused = rule.find_refused([location])
    deletable = rule.select_deletable([location])
    assert not (refused and deletable)
    for storage, path in opened(location):
        if not refused:
            assert storage == "file"
            assert within(path, WAREHOUSE)
            assert not within(path, HIDDEN)
        if deletable:
            assert within(path, OWN)


@given(
    st.lists(st.sampled_from(("data", "p=a%2F..%2Fb", "p=%3A", "p=a b", "x=ä", "f.parquet")), min_size=1, max_size=4)
)
def test_what_engines_write_passes(parts: list[str]) -> None:
    """The other side: a rule that refuses everything would pass the tests above."""
    rule = FileRule(table="t", allowed=ALLOWED, own=["/wh/mine"], others=lambda _: ["file:///wh/hidden"], links=DISK)
    own = [f"{scheme}/wh/mine/{'/'.join(parts)}" for scheme in ("", "file:", "file://", "file://localhost")]
    assert rule.find_refused(own) == {}
    assert rule.select_deletable(own) == own
    assert rule.find_refused(["/wh/landing/" + "/".join(parts)]) == {}
