"""`python -m envhub_runner`: connect to the worker, load the environment, then serve its commands until `shutdown`.

ENVHUB_CHANNEL names the worker's unix socket. Descriptors 1 and 2 are the run's log; 0 is closed to the environment.
"""

from __future__ import annotations

import os
import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main(os.environ["ENVHUB_CHANNEL"]))
