"""infra/nginx.conf speaks HTTP/2, which prime-sandboxes has no way around."""

from __future__ import annotations

import re

from tests.infra.tools import ROOT


def test_each_server_speaks_http_2() -> None:
    listening = re.findall(r"^ +listen (.*?);", (ROOT / "infra" / "nginx.conf").read_text(), re.MULTILINE)
    assert listening == ["443 ssl http2"] * 2
