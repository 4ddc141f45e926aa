"""`python tied.py COMMAND...` becomes COMMAND, which gets SIGTERM when its parent dies, however that dies.

A program that is not ours (vLLM, Ray) would go on holding its GPUs until the worker is started again.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
TIED = __file__  # for whoever starts it

if __name__ == "__main__":
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  an argument list, no shell
