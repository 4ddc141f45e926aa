"""Is an install through the hub's index as quick as from a static file server? `python -m tests.bench.bench_index`

Installs the same 100 KB wheel by uv, alternately from `python -m http.server` and from a hub under uvicorn (SQLite,
files), each time without caches into a fresh directory. Exit status 1 when the hub's best time is over 1.2 x.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROUNDS, LIMIT = 25, 1.2
SEED = """
import django; django.setup()
from pathlib import Path
from hub.storage.services import open_blob
from tests.factories.accounts import make_user
from tests.factories.registry import push_version
import sys
version = push_version(make_user("bench"), requires=[], files={"tiny_data.txt": Path(sys.argv[1]).read_bytes()})
root = Path(sys.argv[2], "simple", "tiny-env"); root.mkdir(parents=True)
name, digest = version.wheel_filename, version.metadata_id
(root / name).write_bytes(open_blob(version.wheel_id).read())
(root / f"{name}.metadata").write_bytes(open_blob(digest).read())
link = f'<a href="{name}#sha256={version.wheel_id}" data-core-metadata="sha256={digest}">{name}</a>'
(root / "index.html").write_text(link)
"""


def environment(root: Path) -> dict[str, str]:
    """Without this machine's own indexes and proxies."""
    dropped = ("PIP_", "UV_", "HUB_", "HTTP", "http", "ALL_PROXY", "all_proxy")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    hub = {"HUB_DATA": str(root / "data"), "DJANGO_SETTINGS_MODULE": "hub.config.settings"}
    return kept | hub | {"HOME": str(root), "NO_PROXY": "*"}


@contextmanager
def serve(argv: list[str], port: int, env: dict[str, str]) -> Iterator[None]:
    """A server process that answers on `port`."""
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def install(url: str, root: Path, env: dict[str, str]) -> float:
    """Seconds of one cold install."""
    target = root / "site"
    shutil.rmtree(target, ignore_errors=True)
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--no-config", "--no-cache", "--quiet"]
    started = time.perf_counter()
    subprocess.run([*uv, "--index-url", url, "--target", str(target), "tiny-env"], env=env, check=True)
    return time.perf_counter() - started


def main() -> int:
    """Seed, serve, time, compare."""
    root = Path(tempfile.mkdtemp(prefix="bench-index-"))
    env = environment(root)
    data = root / "data.txt"
    data.write_bytes(base64.b64encode(random.Random(1).randbytes(75_000)))
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], env=env, check=True)
    subprocess.run([sys.executable, "-c", SEED, str(data), str(root / "static")], env=env, check=True)
    hub, static = free_port(), free_port()
    asgi = [sys.executable, "-m", "uvicorn", "hub.config.asgi:application", "--port", str(hub), "--log-level", "error"]
    plain = [
        sys.executable,
        "-m",
        "http.server",
        str(static),
        "--bind",
        "127.0.0.1",
        "--directory",
        str(root / "static"),
    ]
    urls = {"static": f"http://127.0.0.1:{static}/simple/", "hub": f"http://127.0.0.1:{hub}/index/bench/simple/"}
    times: dict[str, list[float]] = {name: [] for name in urls}
    with serve(asgi, hub, env), serve(plain, static, env):
        for _ in range(ROUNDS):
            for name, url in urls.items():
                times[name].append(install(url, root, env))
    shutil.rmtree(root)
    best = {name: min(taken) for name, taken in times.items()}
    ratio = best["hub"] / best["static"]
    print(f"install: static {best['static'] * 1000:.0f} ms, hub {best['hub'] * 1000:.0f} ms, ratio {ratio:.2f}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
