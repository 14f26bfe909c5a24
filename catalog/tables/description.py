"""Descriptions: the comment, the owner and the labels of a catalog, a namespace, a table, a view or a column.

All of them are properties, so other engines see and set them: `comment` and `owner` as Spark and Hive write them, and
one property for each label. Two people who add two labels at once change two properties, so none of them is lost. The
comment of a column is the `doc` of its field in the Iceberg schema. Engines check nothing of this, so readers clean it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from catalog.errors import Invalid
from catalog.names import fold_case

COMMENT = "comment"
OWNER = "owner"
LABEL = "firn.label."
"""The prefix of a label's property; its value is `true`."""
COLUMN_LABEL = "firn.column-label."
"""The prefix of a column's label: the id of the field follows, which a rename keeps, then a dot and the label."""
LONGEST_COMMENT = 4_000
"""Characters that a metastore's database stores for the comment of a table."""
LONGEST_OWNER = 255
LONGEST_LABEL = 63
MOST_LABELS = 50
_ON, _OFF = "true", "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What people have written about an object."""

    comment: str | None = None
    owner: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionChange:
    """A change of one description. None leaves a text as it is, and an empty text removes it."""

    comment: str | None = None
    owner: str | None = None
    add_labels: Collection[str] = ()
    remove_labels: Collection[str] = ()

    def __post_init__(self) -> None:
        _check_text("comment", self.comment, LONGEST_COMMENT, line_breaks=True)
        _check_text("owner", self.owner, LONGEST_OWNER, line_breaks=False)
        added = {parse_label(label) for label in self.add_labels}
        if both := sorted(added & {fold_case(label) for label in self.remove_labels}):
            raise Invalid(f"the request both adds and removes the label {both[0]!r}")
        if len(added) > MOST_LABELS:
            raise Invalid(f"{len(added)} labels in one request: at most {MOST_LABELS} are allowed")

    def list_changes(self) -> PropertyChange:
        """The changes of an object's own properties."""
        change = PropertyChange()
        for key, text in ((COMMENT, self.comment), (OWNER, self.owner)):
            change.put(key, text)
        return self.list_label_changes(LABEL, change)

    def list_label_changes(self, prefix: str, change: PropertyChange) -> PropertyChange:
        """Add the changes of labels, whose properties begin with the prefix."""
        for label in self.add_labels:
            change.put(prefix + parse_label(label), _ON)
        for label in self.remove_labels:
            change.put(prefix + fold_case(label), "")
        return change


@dataclass(slots=True)
class PropertyChange:
    """Properties to set and to remove."""

    updates: dict[str, str] = field(default_factory=dict)
    removals: set[str] = field(default_factory=set)

    def put(self, key: str, text: str | None) -> None:
        """Set a property; remove it for an empty text, and leave it as it is for None."""
        if text is None:
            return
        if text.strip():
            self.updates[key] = text.strip()
        else:
            self.removals.add(key)


def read_description(properties: Mapping[str, str]) -> Description:
    """The description in the properties of a catalog, namespace, table or view."""
    return Description(
        comment=properties.get(COMMENT) or None,
        owner=properties.get(OWNER) or None,
        labels=tuple(sorted(_list_labels(properties, LABEL))[:MOST_LABELS]),
    )


def read_column_labels(properties: Mapping[str, str]) -> Mapping[int, tuple[str, ...]]:
    """The labels of columns, nested ones too, by the id of their field. Columns without labels are missing."""
    labels: dict[int, list[str]] = {}
    for rest in sorted(_list_labels(properties, COLUMN_LABEL, is_nested=True)):
        field_id, _, label = rest.partition(".")
        if field_id.isascii() and field_id.isdigit() and len(field_id) <= 10 and is_label(label):
            labels.setdefault(int(field_id), []).append(label)
    return {field_id: tuple(words[:MOST_LABELS]) for field_id, words in labels.items()}


def parse_label(text: str) -> str:
    """A label in one case; raises Invalid for a text that is not one word."""
    label = fold_case(text.strip())
    if not is_label(label):
        raise Invalid(
            f"invalid label {text[: LONGEST_LABEL + 1]!r}",
            hint=f"use up to {LONGEST_LABEL} letters and digits, with - or _ between them, such as pii or cost-center",
        )
    return label


def is_label(text: str) -> bool:
    """Whether the text is a label: one word of letters and digits of any script, with `-` and `_` inside."""
    bare = text.replace("-", "").replace("_", "")
    is_short = 0 < len(text) <= LONGEST_LABEL
    return is_short and bare.isalnum() and text[0].isalnum() and text[-1].isalnum() and text == fold_case(text)


def check_label_property(key: str, text: str) -> bool:
    """Whether the property is a label. Invalid if it is meant as one, but has a wrong name or value."""
    prefix = next((prefix for prefix in (LABEL, COLUMN_LABEL) if key.startswith(prefix)), None)
    if prefix is None:
        return False
    label = key.removeprefix(prefix)
    if prefix == COLUMN_LABEL:
        field_id, _, label = label.partition(".")
        if not (field_id.isascii() and field_id.isdigit()):
            raise Invalid(f"{key}: the id of a field has to follow {COLUMN_LABEL}")
    if parse_label(label) != label:
        raise Invalid(f"{key}: labels are in lower case", hint=f"write {key.removesuffix(label)}{parse_label(label)}")
    if text not in (_ON, _OFF):
        raise Invalid(f"{key}: {text[:40]!r} is not true or false", hint="a label has no value: set it to true")
    return True


def _list_labels(properties: Mapping[str, str], prefix: str, *, is_nested: bool = False) -> Iterator[str]:
    for key, text in properties.items():
        if key.startswith(prefix) and text != _OFF:
            label = key.removeprefix(prefix)
            if is_nested or is_label(label):
                yield label


def _check_text(field: str, text: str | None, longest: int, *, line_breaks: bool) -> None:
    if text is None:
        return
    if len(text) > longest:
        raise Invalid(f"the {field} has {len(text):,} characters, at most {longest:,} are allowed", hint="shorten it")
    allowed = "\n\t" if line_breaks else ""
    wrong = next((char for char in text if not char.isprintable() and char not in allowed), None)
    if wrong is not None:
        raise Invalid(f"the {field} has the character U+{ord(wrong):04X}, which people cannot see", hint="remove it")
