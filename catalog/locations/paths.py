"""The locations of a catalog: its warehouse and its metastore, as people write them.

They are checked at the catalog's creation. A catalog's locations never change, and a mistyped one would only show with
the first table.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from firn.protocol.locations import lies_in, normalize_location

DEFAULT_METASTORE_PORT = 9083
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HINT = "write file:///DIRECTORY, s3://BUCKET/PREFIX or hdfs://HOST:PORT/DIRECTORY"


def check_warehouse(text: str) -> str:
    """An absolute path or a URI without a slash at its end, the same for all machines; Invalid for any other text."""
    warehouse = text.strip().rstrip("/")
    scheme, sign, rest = warehouse.partition(":")
    if warehouse.startswith("/"):
        return warehouse
    if not sign or not _SCHEME.fullmatch(scheme):
        raise Invalid(f"{text!r} is no location of a warehouse", hint=_HINT)
    if scheme == "file":
        host, slash, path = (
            rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", rest[:1], rest[1:])
        )
        if host not in {"", "localhost"} or slash != "/" or not path.strip("/"):
            raise Invalid(f"{text!r} is no directory of this machine", hint=_HINT)
    elif not rest.startswith("//") or not rest.strip("/"):
        raise Invalid(f"{text!r} is no location of a warehouse", hint=_HINT)
    return warehouse


def parse_metastore_uris(text: str) -> tuple[str, ...]:
    """The URIs of `thrift://a:9083,thrift://b:9083`, as Hive's own setting writes them; Invalid for any other text."""
    uris = tuple(uri.strip() for uri in text.split(",") if uri.strip())
    for uri in uris:
        parse_metastore_address(uri)
    if not uris:
        raise Invalid("the list of metastores is empty", hint="Write thrift://HOST:PORT.")
    return uris


def parse_metastore_address(uri: str) -> tuple[str, int]:
    """Host and port of a `thrift://` URI."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or DEFAULT_METASTORE_PORT
    except ValueError:
        parts, host, port = None, None, 0
    if parts is None or parts.scheme != "thrift" or not host:
        raise Invalid(f"{uri!r} is not the address of a metastore", hint="Write thrift://HOST:PORT.")
    return host, port


DATA_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that send a table's new files elsewhere; the last two are older names of the first."""


def list_data_paths(metadata: Json) -> tuple[str, ...]:
    """The directories for a table's new files outside of its location."""
    own, properties = normalize_location(metadata["location"]), metadata.get("properties", {})
    named = (str(properties[key]).rstrip("/") for key in DATA_PATHS if properties.get(key))
    return tuple(dict.fromkeys(place for place in named if not lies_in(normalize_location(place), own)))
