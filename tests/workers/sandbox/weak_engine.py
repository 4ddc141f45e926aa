"""The engine's daemon without one of its protections: `-m tests.workers.sandbox.weak_engine --without SECCOMP ...`.

An attack that it does not contain, and that the real daemon does, is one that the suite could have seen fail.
"""

import sys
from typing import Any

from workers.sandbox import launcher
from workers.sandbox.engine import __main__, container, daemon
from workers.sandbox.options import Protection


def plain_bind(place: str, target: str, source: int, *_: object) -> bool:
    launcher.bind(target, source)
    return False


def weaken(protection: Protection) -> None:
    real = container.specification

    def specification(*arguments: Any, **options: Any) -> dict[str, Any]:
        found = real(*arguments, **options)
        if protection is Protection.SECCOMP:
            found["seccomp_profile_path"] = "unconfined"
        if protection is Protection.NETWORK:
            found["netns"] = {"nsmode": "host"}
        if protection is Protection.PROC:
            found["mask"] = ["/sys"]
            (proc,) = [mount for mount in found["mounts"] if mount["destination"] == "/proc"]
            proc["options"].remove("ro")
            found["unmask"] = ["ALL"]
        return found

    daemon.specification = specification  # type: ignore[attr-defined]
    if protection in (Protection.VIEWS, Protection.READ_ONLY):
        launcher.view = plain_bind
    if protection is Protection.READ_ONLY:
        container.READABLE = container.WRITABLE


if __name__ == "__main__":
    at = sys.argv.index("--without")
    weaken(Protection[sys.argv.pop(at + 1)])
    del sys.argv[at]
    sys.exit(__main__.main())
