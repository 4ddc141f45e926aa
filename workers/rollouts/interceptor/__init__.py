"""What the box's model calls go through: an HTTP server on a unix socket, a recorder for each rollout, endpoints.

box -> server -> (messages | responses | token_route: into chat or completions) -> endpoint -> model; and back.
"""
