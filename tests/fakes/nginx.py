"""nginx with infra/nginx.conf as it is shipped, but for TLS, addresses and paths."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
WHOLE = """user {user};
worker_processes {processes};
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; tcp_nopush on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {shipped}
    server {{ listen 127.0.0.1:{static_port}; root {folder}/static; etag on; }}
}}
"""


def configuration(folder: Path, hubs: Sequence[int], port: int, static_port: int, processes: int) -> str:
    """The whole file: the hub's server on `port`, files of folder/static on `static_port`."""
    shipped = (ROOT / "infra" / "nginx.conf").read_text()
    shipped = re.sub(r"^ssl_.*$", "", shipped, flags=re.MULTILINE)
    hub, separator, _storage = shipped.rpartition("\nserver {")
    assert separator, "infra/nginx.conf has no second server"
    hub = hub.replace("listen 443 ssl http2;", f"listen 127.0.0.1:{port};").replace("/var/cache/nginx", str(folder))
    hub = hub.replace("server 127.0.0.1:8000;", " ".join(f"server 127.0.0.1:{each};" for each in hubs))
    return WHOLE.format(folder=folder, user="root", processes=processes, shipped=hub, static_port=static_port)


@contextmanager
def nginx(folder: Path, hubs: Sequence[int], port: int, static_port: int, processes: int = 1) -> Iterator[Path]:
    """Inside, it runs; what lies in the directory that it gives is served on `static_port`."""
    assert PROGRAM is not None, "nginx is not installed"
    (folder / "static").mkdir(parents=True)
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, hubs, port, static_port, processes))
    process = subprocess.Popen([PROGRAM, "-p", str(folder), "-c", str(file)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"nginx did not start: {(folder / 'error.log').read_text()}")
        yield folder / "static"
    finally:
        process.terminate()
        process.wait(10)
