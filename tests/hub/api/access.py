"""Who gets through to a route."""

from __future__ import annotations

from enum import Enum, auto


class Access(Enum):
    """Who gets through."""

    OPEN = auto()  # everybody; shows nothing private
    PREVIEW = auto()  # everybody gets the same of what is public; of what is private nobody, not even its owner
    SIGNED_IN = auto()  # every user, each sees the own things
    PRIVATE = auto()  # members of the owner and administrators; 404 to other users, 401 or 404 to nobody
    PERSONAL = auto()  # the user alone: 404 to administrators too
    ADMINISTRATOR = auto()  # administrators; by API token only with the scope admin
    SHARED = auto()  # every user and every live attempt; nobody else
    WORKER = auto()  # holders of a worker token
    RUN = auto()  # the attempt of this very run
    EVALUATION = auto()  # the attempt that works on it
    TRAINING = auto()  # the attempt that trains
    ANY_RUN = auto()  # every live attempt
    MONITOR = auto()  # who shows HUB_METRICS_TOKEN: tests/hub/api/test_metrics.py
    GATEWAY = auto()  # answered in front of Django: tests/hub/inference has their other roles
