"""envhub: the SDK of Environments Hub. Wire types, packaging, HTTP client, command line, and the runner for the box."""

__version__ = "0.1.0"
