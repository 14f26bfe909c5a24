"""The server as a resource of Dagster."""

from __future__ import annotations

from dagster import ConfigurableResource
from pydantic import Field

from firn.client import DEFAULT_CATALOG, DEFAULT_URL, Client, connect


class FirnResource(ConfigurableResource):
    """A Firn server. Take the token from `EnvVar`, so that it is in no definition."""

    url: str = Field(default=DEFAULT_URL, description="The address of the server.")
    token: str | None = Field(default=None, description="An access token; none if the server has no access control.")
    catalog: str = Field(default=DEFAULT_CATALOG, description="The catalog of names without one.")

    def get_client(self) -> Client:
        """A client with the token that the resource has now. Close it, or use it in a `with` block."""
        return connect(self.url, token=self.token or None, catalog=self.catalog)

    def resolve(self) -> FirnResource:
        """The same resource with the values of its `EnvVar`s, for use outside of runs."""
        resolved: FirnResource = self.process_config_and_initialize()
        return resolved
