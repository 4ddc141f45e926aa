"""HTTP client of a hub. `HubClient` is the whole API, typed; used by the CLI, by tests and by users' scripts."""

from envhub.client.hub import HubClient

__all__ = ["HubClient"]
