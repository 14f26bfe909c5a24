"""The named fields of an Iceberg schema with their comments, and a schema with other comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches

from catalog.errors import NotFound
from catalog.iceberg.json import Json


def list_fields(schema: Json) -> Iterator[tuple[str, Json]]:
    """All named fields of a schema with their paths: columns, each followed by the fields of structs in it.

    A struct that is the element of a list, or the key or value of a map, adds nothing to the path.
    """
    waiting = [("", schema)]
    while waiting:
        path, node = waiting.pop()
        nested: list[tuple[str, Json]] = []
        for field in node.get("fields", ()):
            name = f"{path}{field.get('name')}"
            yield name, field
            nested += [(f"{name}.", struct) for struct in _list_structs(field.get("type"))]
        waiting += reversed(nested)


def find_fields(schema: Json, names: Iterable[str]) -> Mapping[str, int]:
    """The ids of fields by path; raises NotFound for one that the schema lacks."""
    ids: dict[str, int] = {}
    for path, field in list_fields(schema):
        ids.setdefault(path, field["id"])
    field_ids = {}
    for name in names:
        if name not in ids:
            near = get_close_matches(name, ids, n=1)
            raise NotFound(
                f"the table has no column {name!r}",
                hint=f"did you mean {near[0]}?" if near else "`firn table show` lists the columns",
            )
        field_ids[name] = ids[name]
    return field_ids


def put_comments(schema: Json, comments: Mapping[int, str]) -> Json | None:
    """The schema with these comments by field id, an empty one removed; None if it has them already."""
    changed, is_changed = deepcopy(schema), False
    for _, field in list_fields(changed):
        comment = comments.get(field["id"])
        if comment is None or comment == (field.get("doc") or ""):
            continue
        is_changed = True
        if comment:
            field["doc"] = comment
        else:
            field.pop("doc", None)
    return changed if is_changed else None


def _list_structs(of_field: object) -> list[Json]:
    """The structs in a field's type: itself, or those in the elements of lists and in keys and values of maps."""
    structs: list[Json] = []
    waiting = [of_field]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "struct":
                structs.append(node)
            waiting += [node.get("value"), node.get("key"), node.get("element")]
    return structs
