#!/usr/bin/env bash
# Prints the folder of wheels that pip is told to look into, if any. `pip config get` reads the user's file alone, not /etc/pip.conf
# and not PIP_FIND_LINKS; `list` reads all, the environment last.
cd "$(dirname "$0")/../.." || exit
.venv/bin/pip config list 2>/dev/null | sed -n "s/^[^.]*\.find-links='\(.*\)'$/\1/p" | tail -n 1
