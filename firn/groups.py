"""Groups of optimizers: `client.groups.set("nightly", reserved_slots=2)`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from firn.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a server. Each answer is as the server gives it."""

    transport: Transport

    def list(self) -> list[Json]:
        """By name; `default` is always there."""
        return list(self.transport.items("/groups"))

    def get(self, name: str) -> Json:
        """One; NotFound when there is none of that name."""
        return self.transport.get(_path(name))

    def create(self, name: str, **settings: Json) -> Json:
        """A new one; what is not given is as the server has it for every group."""
        return self.transport.change("POST", "/groups", {"name": name, **settings})

    def set(self, name: str, **settings: Json) -> Json:
        """Change some of its settings; the others stay."""
        return self.transport.change("PATCH", _path(name), settings)

    def launch(self, name: str) -> Json:
        """How its optimizers are started, and how many there are."""
        return self.transport.get(f"{_path(name)}/launch")

    def set_launch(self, name: str, **settings: Json) -> Json:
        """Change how its optimizers are started; what is not given stays. `scaling` takes some of its own alike."""
        return self.transport.change("PATCH", f"{_path(name)}/launch", settings)

    def preview_launch(self, name: str, **settings: Json) -> Json:
        """Return the command of the next launch after a change, without secrets. The server saves nothing."""
        return self.transport.change("POST", f"{_path(name)}/launch/dry-run", settings)

    def scale(self, name: str, *, minimum: int, maximum: int) -> Json:
        """Between how many optimizers it has."""
        return self.transport.change("POST", f"{_path(name)}/scale", {"minimum": minimum, "maximum": maximum})

    def drop(self, name: str) -> None:
        """Forget one in which nobody works."""
        self.transport.change("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/groups/{quote(name, safe='')}"
