"""`python tied.py COMMAND...` becomes COMMAND, which gets SIGTERM when its parent dies, however that dies.

An engine that is not ours (vLLM) would go on holding its GPU until the worker is started again.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  an argument list, no shell
