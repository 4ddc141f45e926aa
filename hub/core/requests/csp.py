"""The Content-Security-Policy of every answer: strict, with a nonce for scripts (`{{ request.csp_nonce }}`).

The header is written by django-csp's middleware from `settings.CONTENT_SECURITY_POLICY`, which is `policy()`.
"""

from __future__ import annotations

from typing import Any

from csp.constants import NONCE, NONE, SELF

Policy = dict[str, Any]


def policy() -> Policy:
    """Everything from here, scripts only from files or with the page's nonce, no frames, no plug-ins."""
    return {
        "EXCLUDE_URL_PREFIXES": [],
        "DIRECTIVES": {
            "default-src": [SELF],
            "script-src": [SELF, NONCE],
            "style-src": [SELF, NONCE],
            "img-src": [SELF, "data:"],
            "connect-src": [SELF],
            "font-src": [SELF],
            "object-src": [NONE],
            "base-uri": [NONE],
            "form-action": [SELF],
            "frame-ancestors": [NONE],
        },
    }
