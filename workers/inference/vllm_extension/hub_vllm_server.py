"""Start vLLM's OpenAI server in this process, which ends when its parent does, however that ends.

With `--headless` it is a part of an engine on several hosts, which computes for the part that answers requests.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(0)
    sys.argv[0] = "hub_vllm_part" if "--headless" in sys.argv else "vllm.entrypoints.openai.api_server"
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
