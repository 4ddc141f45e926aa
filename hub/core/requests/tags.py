"""The parts of /api/v1 (the first word of each path), in the order of its documentation."""

from __future__ import annotations

DESCRIPTIONS = {
    "environments": "Environments with their versions, pushes, checks, files, forks and leaderboards",
    "evaluations": "Evaluations on the hub or pushed from elsewhere: rollouts, exports, comparisons, labels and notes",
    "training": "Training runs: metrics, rollouts, checkpoints, adapters",
    "models": "The catalog: endpoints, local models and adapters",
    "deployments": "Models that are kept loaded and answer at /inference/v1",
    "sandboxes": "Computers to run commands in: processes, files, ports",
    "runs": "What workers do: state, log, cancelling; and what the worker of a run reports",
    "data": "Data sets, and files of the outside, that runs may read",
    "images": "Container images of sandboxes",
    "repositories": "Git repositories that boxes of runs may clone",
    "bundles": "Environments as one signed file, for hubs without a network",
    "share-links": "Secret addresses under which somebody without an account may read",
    "me": "The caller, and what its token permits",
    "tokens": "API tokens",
    "device": "Signing in from a terminal (RFC 8628)",
    "secrets": "Secrets of an owner, which runs are given by name",
    "teams": "Teams, their members and invitations",
    "join": "Accepting an invitation",
    "notifications": "What became of what the caller started",
    "webhooks": "Signed messages to other systems, with a log of their deliveries",
    "usage": "What the caller's owners have used",
    "audit": "Every write: who, what, from where",
    "users": "Accounts, for administrators",
    "quotas": "What single owners may use, for administrators",
    "workers": "Workers, their tokens, and what autoscalers ask",
    "blobs": "Content by its SHA-256: what must be uploaded before it is named elsewhere",
    "wheels": "Wheels that workers built from sources",
    "former-names": "Addresses of renamed environments",
}
TAGS = [{"name": name, "description": description} for name, description in DESCRIPTIONS.items()]
