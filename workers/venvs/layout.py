"""What each environment has of its own at its root, beside what wheels bring. Called by all that make or read one."""

from __future__ import annotations

BASE = "base"  # in an environment that lies over another: a link to that one
LOCK_FILE = "envhub-lock.json"
TREES = 2  # part of the name of every tree: raise it when wheels are laid out differently
OF_EACH = {BASE, LOCK_FILE, "lib64", "pyvenv.cfg"}
