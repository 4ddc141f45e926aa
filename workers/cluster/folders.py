"""Ray's directory on this host. Linux allows 107 bytes for the path of a socket, and Ray adds about 62 to it."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from workers.settings import WorkerEnvironment

LONGEST = 40  # bytes


def ray_folder(settings: WorkerEnvironment) -> Path:
    """Below WORKER_DATA, or where that is too long a link to it from the system's directory of temporary files.

    Raises OSError when somebody else has made that link.
    """
    folder = settings.folder("ray")
    if len(str(folder).encode()) <= LONGEST:
        return folder
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    link = Path(tempfile.gettempdir()) / f"envhub-ray-{digest}"
    if not link.is_symlink():
        link.symlink_to(folder)
    if link.readlink() != folder:
        raise OSError(f"{link} leads elsewhere: it is not this worker's; delete it")
    return link
