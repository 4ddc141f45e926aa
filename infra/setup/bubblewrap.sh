#!/usr/bin/env bash
# Installs bubblewrap where that is possible without a question, else says the one command. Never fails the setup.
set -u
command -v bwrap >/dev/null 2>&1 && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1 && { [ -z "$as_root" ] || sudo -n true 2>/dev/null; }; then
    echo "installing bubblewrap ..."
    $as_root apt-get install -y -qq bubblewrap >/dev/null 2>&1 \
        || { $as_root apt-get update -qq && $as_root apt-get install -y -qq bubblewrap; } >/dev/null 2>&1
fi
command -v bwrap >/dev/null 2>&1 && exit 0
echo "bubblewrap is missing: builds and evaluations need it. Run:  sudo apt-get install bubblewrap   (or your system's package)" >&2
exit 0
