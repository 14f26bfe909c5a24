"""The catalogs of a server and their policies: `client.catalogs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from firn.descriptions import build_change
from firn.protocol.answers.catalogs import CatalogOut
from firn.transport import Json, Transport

ALLOWED = "firn.storage.allowed-locations"


@dataclass(frozen=True, slots=True)
class Catalogs:
    """The server's catalogs."""

    transport: Transport

    def list(self) -> list[CatalogOut]:
        """All of them."""
        return [CatalogOut.read(document) for document in self.transport.items("/catalogs")]

    def get(self, name: str) -> CatalogOut:
        """One; NotFound when there is none of that name."""
        return CatalogOut.read(self.transport.get(f"/catalogs/{_quoted(name)}"))

    def create(
        self, name: str, *, warehouse: str, metastore: str | None = None, properties: Mapping[str, str] | None = None
    ) -> CatalogOut:
        """A new one over a warehouse (`file:///…`, `s3://…`), optionally linked to a metastore (`thrift://HOST:PORT`)."""
        body = {"name": name, "warehouse": warehouse, "metastore": metastore, "properties": dict(properties or {})}
        return CatalogOut.read(self.transport.change("POST", "/catalogs", body))

    def set_properties(self, name: str, updates: Mapping[str, str], removals: Sequence[str] = ()) -> CatalogOut:
        """Set and remove properties, such as `firn.drop.retention`."""
        body = {"set": dict(updates), "remove": list(removals)}
        return CatalogOut.read(self.transport.change("PATCH", f"/catalogs/{_quoted(name)}/properties", body))

    def describe(
        self,
        name: str,
        *,
        comment: str | None = None,
        owner: str | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
    ) -> CatalogOut:
        """Change its comment, owner and labels. None leaves a text as it is, and an empty text removes it."""
        body = build_change(comment, owner, add_labels, remove_labels)
        return CatalogOut.read(self.transport.change("PATCH", f"/catalogs/{_quoted(name)}/description", body))

    def allow(self, name: str, location: str) -> CatalogOut:
        """Add to where its tables may lie besides its warehouse."""
        allowed = [part.strip() for part in self.get(name).properties.get(ALLOWED, "").split(",") if part.strip()]
        return self.set_properties(name, {ALLOWED: ",".join(dict.fromkeys((*allowed, location)))})

    def misplaced(self, name: str) -> Sequence[Json]:
        """Tables whose locations break the rule, with what to do; every table's metadata is read for it."""
        return [*self.transport.items(f"/catalogs/{_quoted(name)}/misplaced")]

    def position_problems(self, name: str) -> Sequence[Json]:
        """Writers whose stored position contradicts their table; the metadata of tables with writers is read for it."""
        return [*self.transport.items(f"/catalogs/{_quoted(name)}/positions")]

    def drop(self, name: str, *, forget_dropped: bool = False) -> None:
        """Forget an empty one, on request with its dropped tables; its warehouse stays."""
        self.transport.change("DELETE", f"/catalogs/{_quoted(name)}", params={"forget_dropped": forget_dropped})

    def policy(self, name: str, namespace: str | None = None) -> Json:
        """What is set for the catalog or one namespace."""
        return self.transport.get(f"/catalogs/{_quoted(name)}/policy", {"namespace": namespace})

    def set_policy(self, name: str, settings: Mapping[str, str], namespace: str | None = None) -> Json:
        """Replace what is set for the catalog or one namespace."""
        body = {"settings": dict(settings)}
        return self.transport.change("PUT", f"/catalogs/{_quoted(name)}/policy", body, {"namespace": namespace})

    def change_policy(
        self, name: str, updates: Mapping[str, str], removals: Sequence[str] = (), namespace: str | None = None
    ) -> Json:
        """Set and remove single settings; what is not named stays, also what somebody else sets meanwhile."""
        body = {"set": dict(updates), "remove": list(removals)}
        return self.transport.change("PATCH", f"/catalogs/{_quoted(name)}/policy", body, {"namespace": namespace})


def _quoted(part: str) -> str:
    return quote(part, safe="")
